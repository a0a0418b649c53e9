//! What the operating system says about this process.

use std::fs;

/// Resident memory in bytes; `None` where the system does not tell.
pub(super) fn resident_memory_bytes() -> Option<u64> {
    fs::read_to_string("/proc/self/status").ok().as_deref().and_then(parse_resident_bytes)
}

/// Reads `VmRSS` from the text of `/proc/self/status`: unlike `statm`, in a unit that no page size changes.
fn parse_resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(parse_resident_bytes("VmHWM:\t   900 kB\nVmRSS:\t     512 kB\nThreads:\t4\n"), Some(524_288));
    }

    #[test]
    fn text_without_a_size_is_unknown() {
        for status in ["", "Name:\tx\n", "VmRSS:\n", "VmRSS:\t-1 kB\n", "VmRSS:\t12 MB\n"] {
            assert_eq!(parse_resident_bytes(status), None, "{status:?}");
        }
    }
}
