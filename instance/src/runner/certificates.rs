//! Whether the certificates that PostgreSQL uses are still the ones in its folders.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// A change that the kernel did not tell of (a folder that was not there yet) is seen after this long; milliseconds.
pub const LOOK_EVERY: u64 = 30_000;

/// The certificates in the folders, and those that PostgreSQL last read.
#[derive(Debug)]
pub struct Certificates {
    files: Vec<PathBuf>,
    watch: OwnedFd,
    in_use: u64,
    present: u64,
}

impl Certificates {
    /// Watches the server's folder and the CA's.
    pub fn watch(tls: &Path, trust: &Path) -> std::io::Result<Self> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let changes = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE;
        for folder in [tls, trust] {
            let _ = inotify::add_watch(&watch, folder, changes);
        }
        let mut certificates = Self {
            files: vec![tls.join("tls.crt"), trust.join("ca.crt")],
            watch,
            in_use: 0,
            present: 0,
        };
        certificates.look();
        certificates.taken();
        Ok(certificates)
    }

    /// Readable when something changed in the folders.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Reads the files again. A key changes only together with its certificate and is never read.
    pub fn look(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        while events.next().is_ok() {}
        let mut hasher = DefaultHasher::new();
        for file in &self.files {
            std::fs::read(file).ok().hash(&mut hasher);
        }
        self.present = hasher.finish();
    }

    /// PostgreSQL is about to read them: [`Self::look`] first.
    pub fn taken(&mut self) {
        self.in_use = self.present;
    }

    /// Whether PostgreSQL has others than those in the folders.
    pub fn changed(&self) -> bool {
        self.in_use != self.present
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn a_renewed_certificate_is_noticed_at_once_even_through_the_links_of_a_mounted_secret() {
        let root = std::env::temp_dir().join(format!("sampledb-certificates-{}", std::process::id()));
        let (tls, trust) = (root.join("tls"), root.join("trust"));
        std::fs::create_dir_all(tls.join("..1")).unwrap();
        std::fs::create_dir_all(tls.join("..2")).unwrap();
        std::fs::create_dir_all(&trust).unwrap();
        std::fs::write(tls.join("..1/tls.crt"), "old").unwrap();
        std::fs::write(tls.join("..2/tls.crt"), "new").unwrap();
        std::os::unix::fs::symlink("..1", tls.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/tls.crt", tls.join("tls.crt")).unwrap();

        let mut certificates = Certificates::watch(&tls, &trust).unwrap();
        assert!(!certificates.changed());
        std::os::unix::fs::symlink("..2", tls.join("..data_tmp")).unwrap();
        std::fs::rename(tls.join("..data_tmp"), tls.join("..data")).unwrap();
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        assert_eq!(
            poll(
                &mut [PollFd::from_borrowed_fd(certificates.fd(), PollFlags::IN)],
                Some(&second)
            ),
            Ok(1)
        );
        certificates.look();
        assert!(certificates.changed());
        certificates.taken();
        assert!(!certificates.changed());
        std::fs::remove_dir_all(root).unwrap();
    }
}
