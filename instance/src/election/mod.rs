//! The election as a pure state machine: no sockets, no clock, no PostgreSQL.
//!
//! [`next`] looks at everything that is known ([`Sight`]) and names the one thing to do now ([`Action`]). Whoever
//! drives it does that, looks again, and asks again; a driver that is killed between any two steps loses nothing,
//! because what a step relies on was made durable by an earlier step.
//!
//! # What is here
//! The path of a database with **one** member: bootstrap, restart in place, adoption of a kept volume, the refusals.
//! Such a database needs no promotion: nobody else can have written on its timeline, so its term ends only when a
//! person restores the register or the volume from an older copy. That case is refused
//! ([`Refusal::HistoryMismatch`]), never guessed.
//!
//! # Guarantees, each a property test
//! * a written register has the next `rev`, a term that never goes back, and a primary only after Electing;
//! * initdb is never asked for once the register has a `systemId` or the member has opened before;
//! * PostgreSQL is never started, and the register never says Open, before `member.json` says `primaryOf`;
//! * clients are led here only after `member.json` says `openedIn`.

mod action;
mod authority;
pub mod blocks;
mod rules;
mod sight;
pub mod swap;

pub use action::{Action, Refusal, Waiting};
pub use authority::authority;
pub use rules::next;
pub use sight::{Claim, Register, Session, Sight};

#[cfg(test)]
mod properties;
#[cfg(test)]
mod world;
