//! Parts of an input.

/// The next bytes; zeros behind the end.
pub fn take<const N: usize>(input: &mut &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    let bytes = take_up_to(input, N);
    taken[..bytes.len()].copy_from_slice(bytes);
    taken
}

pub fn take_up_to<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    taken
}

/// As many as the next byte says.
pub fn take_counted<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let [count] = take(input);
    take_up_to(input, usize::from(count))
}
