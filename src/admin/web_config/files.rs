//! The files that a web config consists of, and how one notices that they changed.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Many times what certificates have; what is larger is something else.
const MAX_BYTES: u64 = 1 << 20;

/// What differs once a file is written or replaced: device, inode, size, and both its times in nanoseconds.
type Stamp = [i64; 7];

/// Files that were read, each as it was then: `None` is one that could not be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Files(BTreeMap<PathBuf, Option<Stamp>>);

impl Files {
    /// Reads a file and remembers what it was.
    ///
    /// # Errors
    /// When it is no file, too large, or can't be read.
    pub fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.insert(path.to_owned(), stamp(fs::metadata(path)));
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        self.0.insert(path.to_owned(), stamp(Ok(metadata)));
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES { Err(io::Error::other("it is larger than 1 MiB")) } else { Ok(bytes) }
    }

    /// The same files as they are now.
    pub fn now(&self) -> Self {
        Self(self.0.keys().map(|path| (path.clone(), stamp(fs::metadata(path)))).collect())
    }

    /// These, and those of `others` that are not among them.
    pub fn with(mut self, others: Self) -> Self {
        for (path, stamp) in others.0 {
            self.0.entry(path).or_insert(stamp);
        }
        self
    }
}

fn stamp(metadata: io::Result<Metadata>) -> Option<Stamp> {
    let metadata = metadata.ok()?;
    Some([
        metadata.dev().cast_signed(),
        metadata.ino().cast_signed(),
        metadata.size().cast_signed(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ])
}
