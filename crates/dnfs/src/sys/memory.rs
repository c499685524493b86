//! Memory of the host.

use super::local_file::{open_array, read};

/// Bytes that programs may have before others are swapped out (`MemAvailable`, proc(5)); none when the kernel does not say.
pub(crate) fn available_bytes() -> Option<u64> {
    let file = open_array(b"/proc/meminfo\0", libc::O_RDONLY, 0).ok()?;
    let mut text = [0; 1024]; // it is the third line
    let got = read(&file, &mut text).ok()?;
    let lines = std::str::from_utf8(text.get(..got)?).ok()?.lines();
    let value = lines.filter_map(|line| line.strip_prefix("MemAvailable:")).next()?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_how_much_there_is() {
        assert!(super::available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
