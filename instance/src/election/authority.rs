//! Whether PostgreSQL may take writes now.

use super::sight::Sight;
use crate::control::Data;

/// The term for which this member may serve, if it may.
///
/// With one member its own grant is the majority: it grants term t as long as it has promised no higher one, and
/// nobody can be elected without its promise. So neither the API nor a fresh read is needed. The member list must
/// be exactly this pod: with more members this is never enough.
pub fn authority(sight: &Sight<'_>) -> Option<i64> {
    let block = sight.block()?;
    let member = sight.member()?;
    let alone =
        block.members == [sight.me] && block.pending_members.as_ref().is_none_or(|m| m == &[sight.me]);
    let named = block.primary.as_deref() == Some(sight.me);
    let unresigned = member.resigned.as_ref().is_none_or(|r| r.term < block.term);
    // A running server is not stopped because its control file could not be read just now.
    let same = match &sight.state.data {
        Data::Initialised { system_id, .. } => {
            block.system_id.as_ref().is_none_or(|wanted| wanted == system_id)
        }
        Data::Empty => block.system_id.is_none(),
        Data::Unreadable { .. } => true,
    };
    let holds = member.promised == block.term && member.primary_of == block.term && !member.marked;
    (alone && named && unresigned && same && holds).then_some(block.term)
}
