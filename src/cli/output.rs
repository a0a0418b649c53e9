//! Standard output, and files that are written whole or not at all.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::NamedTempFile;

/// Prints one line to standard output. Where nobody reads it any more (`| head`), whoever did has enough.
///
/// # Errors
/// When standard output can't be written for another reason.
pub fn print(line: impl Display) -> anyhow::Result<()> {
    unless_enough(writeln!(io::stdout(), "{line}"))
}

fn unless_enough(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output can't be written"),
    }
}

/// An output that appears under its name when it is complete; `-` is standard output.
pub enum Output {
    Stdout(BufWriter<io::Stdout>),
    /// A device or pipe, which nothing may be put in the place of.
    InPlace {
        device: BufWriter<File>,
        path: PathBuf,
    },
    File {
        temporary: BufWriter<NamedTempFile>,
        path: PathBuf,
    },
}

impl Output {
    /// Begins a file beside where it will stand.
    ///
    /// # Errors
    /// When the folder can't be written to.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout(BufWriter::new(io::stdout())));
        }
        // What stands there already: through a link, the file that it names.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let device = fs::OpenOptions::new().write(true).open(path);
            let device = device.with_context(|| format!("{} can't be written", path.display()))?;
            return Ok(Self::InPlace { device: BufWriter::new(device), path: path.clone() });
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let temporary = NamedTempFile::new_in(folder).with_context(|| {
            format!("{} can't be written: no file can be made in {}", path.display(), folder.display())
        })?;
        Ok(Self::File { temporary: BufWriter::new(temporary), path: path.to_owned() })
    }

    /// Writes one line.
    ///
    /// # Errors
    /// When the device is full or gone.
    pub fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.bytes(line)?;
        self.bytes(b"\n")
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// When the device is full or gone.
    pub fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Stdout(out) => unless_enough(out.write_all(bytes)),
            Self::InPlace { device, path } => {
                device.write_all(bytes).with_context(|| format!("{} can't be written", path.display()))
            }
            Self::File { temporary, path } => {
                temporary.write_all(bytes).with_context(|| format!("{} can't be written", path.display()))
            }
        }
    }

    /// Makes the file appear, in the place of what may have stood there.
    ///
    /// # Errors
    /// When it can't be written to the end or put in place.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(mut out) => unless_enough(out.flush()),
            Self::InPlace { mut device, path } => {
                device.flush().with_context(|| format!("{} can't be written", path.display()))
            }
            Self::File { temporary, path } => {
                let failed = || format!("{} can't be written", path.display());
                let file = temporary.into_inner().map_err(io::IntoInnerError::into_error).with_context(failed)?;
                set_mode(&file, &path).with_context(failed)?;
                file.as_file().sync_all().with_context(failed)?;
                file.persist(&path).map_err(|e| e.error).with_context(failed)?;
                Ok(())
            }
        }
    }
}

/// A temporary file is its owner's only; the finished one is readable as its predecessor was, else as files usually are.
fn set_mode(file: &NamedTempFile, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let permissions =
            fs::metadata(path).map_or_else(|_| fs::Permissions::from_mode(0o644), |old| old.permissions());
        file.as_file().set_permissions(permissions)?;
    }
    #[cfg(not(unix))]
    let _ = (file, path);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_finished_does_not_appear() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("b.jsonl");
        let mut output = Output::create(&path).expect("creates");
        output.line(b"{}").expect("writes");
        drop(output);
        assert_eq!(fs::read_dir(folder.path()).expect("reads").count(), 0);
    }

    #[test]
    fn a_finished_file_replaces_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("b.jsonl");
        fs::write(&path, "old").expect("writes");
        let mut output = Output::create(&path).expect("creates");
        output.line(b"new").expect("writes");
        assert_eq!(fs::read_to_string(&path).expect("reads"), "old");
        output.finish().expect("finishes");
        assert_eq!(fs::read_to_string(&path).expect("reads"), "new\n");
    }

    #[test]
    fn a_device_is_written_and_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("links");
        let mut output = Output::create(&link).expect("opens");
        output.line(b"gone").expect("writes");
        output.finish().expect("finishes");
        assert!(fs::symlink_metadata(&link).is_ok_and(|there| there.is_symlink()));
        assert!(fs::metadata("/dev/null").is_ok_and(|there| !there.is_file()));
    }

    #[test]
    fn a_link_stays_and_the_file_it_names_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").expect("writes");
        std::os::unix::fs::symlink(&file, &link).expect("links");
        let mut output = Output::create(&link).expect("creates");
        output.line(b"new").expect("writes");
        output.finish().expect("finishes");
        assert!(fs::symlink_metadata(&link).is_ok_and(|there| there.is_symlink()));
        assert_eq!(fs::read_to_string(&file).expect("reads"), "new\n");
    }
}
