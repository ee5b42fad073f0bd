//! The reserve on the volume that holds pg_wal.
//!
//! PostgreSQL panics when it cannot write its log, and cannot start again on the full volume. A file of 64 MiB is
//! given up before either, which buys the time in which somebody (or the growth of the volume) makes room.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use super::durable;
use crate::control::Storage;

const MIB: u64 = 1 << 20;

/// When the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nothing runs: before a start, or after PostgreSQL ended.
    AtRest,
    /// PostgreSQL is running.
    Running,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Leave,
    /// Give the reserve up.
    GiveUp,
    /// Make it.
    Make,
}

/// What to do with a reserve of `size` bytes that is `whole` or not, with `free` bytes left beside it.
pub fn decide(moment: Moment, whole: bool, free: u64, size: u64) -> Decision {
    let (give_up_below, make_above) = match moment {
        Moment::AtRest => (32 * MIB, 2 * size),
        Moment::Running => (16 * MIB, 4 * size),
    };
    match whole {
        true if free < give_up_below => Decision::GiveUp,
        false if size > 0 && free > make_above => Decision::Make,
        _ => Decision::Leave,
    }
}

/// How it looks to others.
pub fn storage(whole: bool, free: u64) -> Storage {
    match (whole, free < MIB) {
        (true, _) => Storage::Ok,
        (false, false) => Storage::BallastUsed,
        (false, true) => Storage::Full,
    }
}

/// The reserve on one volume.
#[derive(Debug)]
pub struct Ballast {
    volume: PathBuf,
    size: u64,
}

impl Ballast {
    /// A reserve of `size` bytes at the root of `volume`; nothing is made yet.
    pub fn on(volume: PathBuf, size: u64) -> Self {
        Self { volume, size }
    }

    fn file(&self) -> PathBuf {
        self.volume.join("ballast")
    }

    /// Looks, decides and acts; what the volume is like afterwards, and what was done.
    pub fn tend(&self, moment: Moment) -> Result<(Storage, Decision), durable::Failed> {
        let decision = decide(moment, self.whole(), self.free()?, self.size);
        match decision {
            Decision::Leave => {}
            Decision::GiveUp => durable::remove(&self.file())?,
            Decision::Make => {
                if let Err(source) = make(&self.file(), self.size) {
                    durable::remove(&self.file())?;
                    return Err(durable::failed("reserve room in", &self.file())(source));
                }
            }
        }
        Ok((storage(self.whole(), self.free()?), decision))
    }

    fn whole(&self) -> bool {
        std::fs::symlink_metadata(self.file()).is_ok_and(|m| m.is_file() && m.len() >= self.size)
    }

    fn free(&self) -> Result<u64, durable::Failed> {
        let volume = statvfs(&self.volume).map_err(|e| durable::failed("look at", &self.volume)(e.into()))?;
        Ok(volume.f_bavail * volume.f_frsize)
    }
}

fn make(path: &Path, size: u64) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, size) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(&mut file, size)?,
        reserved => reserved?,
    }
    file.sync_all()
}

fn fill(file: &mut File, size: u64) -> io::Result<()> {
    let block = vec![0_u8; 64 << 10];
    let mut left = size;
    while left > 0 {
        let part = left.min(block.len() as u64) as usize;
        file.write_all(&block[..part])?;
        left -= part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case::before_postgres_panics(Moment::Running, true, 15, Decision::GiveUp)]
    #[case::not_too_early(Moment::Running, true, 17, Decision::Leave)]
    #[case::before_a_start_that_would_panic(Moment::AtRest, true, 31, Decision::GiveUp)]
    #[case::given_up_only_once(Moment::Running, false, 0, Decision::Leave)]
    #[case::after_the_volume_grew(Moment::Running, false, 257, Decision::Make)]
    #[case::not_while_it_is_needed(Moment::Running, false, 255, Decision::Leave)]
    #[case::on_a_new_volume(Moment::AtRest, false, 129, Decision::Make)]
    #[case::not_on_one_without_room(Moment::AtRest, false, 128, Decision::Leave)]
    fn the_reserve_is_there_when_the_volume_runs_full(
        #[case] moment: Moment,
        #[case] whole: bool,
        #[case] free_mib: u64,
        #[case] expected: Decision,
    ) {
        assert_eq!(decide(moment, whole, free_mib * MIB, 64 * MIB), expected);
    }

    #[test]
    fn a_reserve_that_was_just_made_is_never_given_up_for_having_been_made() {
        for free in 0..1024 {
            for moment in [Moment::AtRest, Moment::Running] {
                if decide(moment, false, free * MIB, 64 * MIB) == Decision::Make {
                    for later in [Moment::AtRest, Moment::Running] {
                        assert_eq!(
                            decide(later, true, (free - 64) * MIB, 64 * MIB),
                            Decision::Leave,
                            "{free} MiB"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_full_volume_is_told_from_one_that_lives_on_its_reserve() {
        assert_eq!(storage(true, 0), Storage::Ok);
        assert_eq!(storage(false, 2 * MIB), Storage::BallastUsed);
        assert_eq!(storage(false, MIB - 1), Storage::Full);
    }
}
