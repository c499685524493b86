//! Wide characters on cookie streams, which have only bytes. glibc's functions that read wide
//! characters from such a stream end the program, and those that write fail without an error on the
//! stream: `rev` would print nothing to a file of a mount and exit with 0. Here the characters are
//! converted from and to the stream's bytes, in the encoding of the locale at each call (glibc's
//! own streams keep the encoding of their first call). No locale of glibc has an encoding with
//! shift states.
//!
//! Orientation: a stream becomes wide as one of libc's does, and `fwide` returns that. It still
//! accepts bytes.

use crate::cookie;
use crate::ffi;
use crate::file_layout;
#[cfg(target_arch = "x86_64")]
use crate::formatted::variadic;
use crate::hook::hooks;
use crate::outcome::{Out, errno, kept};
use crate::standard;
use libc::{FILE, c_char, c_int, c_void, size_t, wchar_t};

/// A wide character or [`WEOF`].
type Wint = u32;
const WEOF: Wint = Wint::MAX;
const LINE_END: wchar_t = '\n' as wchar_t;
/// Bytes of the longest character in any encoding of glibc (MB_LEN_MAX).
const CHARACTER_BYTES_MAX: usize = 16;
/// Bytes that are written at once.
const PIECE_BYTES: usize = 1024;

/// `mbstate_t` of glibc.
#[repr(C)]
#[derive(Default)]
struct ShiftState([c_int; 2]);

unsafe extern "C" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn getc_unlocked(stream: *mut FILE) -> c_int;
    fn ungetc(byte: c_int, stream: *mut FILE) -> c_int;
    fn feof(stream: *mut FILE) -> c_int;
    fn fclose(stream: *mut FILE) -> c_int;
    fn fwrite(data: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t;
    fn mbrtowc(into: *mut wchar_t, bytes: *const c_char, count: size_t, state: *mut ShiftState) -> size_t;
    fn wcrtomb(into: *mut c_char, wide: wchar_t, state: *mut ShiftState) -> size_t;
    fn open_wmemstream(text: *mut *mut wchar_t, length: *mut size_t) -> *mut FILE;
}

/// The cookie stream for a stream. [`Out::Pass`] for all others, which libc's functions handle.
///
/// # Safety
/// `stream` is NULL or an open stream of glibc.
unsafe fn ours(stream: *mut FILE) -> Result<*mut FILE, Out> {
    if !crate::mounts::any() || stream.is_null() {
        return Err(Out::Pass);
    }
    let stream = standard::current(stream);
    // SAFETY: an open stream by the caller's promise, or the one that replaces it.
    if unsafe { cookie::is_ours(stream) } { Ok(stream) } else { Err(Out::Pass) }
}

/// A cookie stream that is wide and locked for one call.
struct Wide(*mut FILE);

impl Wide {
    /// # Safety
    /// `stream` is NULL or an open stream of glibc.
    unsafe fn of(stream: *mut FILE) -> Result<Self, Out> {
        // SAFETY: NULL or an open stream by the caller's promise; after `ours`, an open cookie stream.
        unsafe {
            let stream = ours(stream)?;
            flockfile(stream);
            cookie::orient(stream, 1);
            Ok(Self(stream))
        }
    }

    /// The cookie stream of descriptor 0 or 1.
    fn standard(fd: c_int) -> Result<Self, Out> {
        // SAFETY: libc's variable contains an open stream, or one that the program stored there.
        unsafe { Self::of(standard::shown(fd).ok_or(Out::Pass)?) }
    }

    /// Marks the stream and returns the error, for a character that cannot be converted.
    fn cannot_convert(&self) -> Out {
        // SAFETY: the stream is open and locked.
        unsafe { file_layout::note_error(self.0) };
        Out::Errno(libc::EILSEQ)
    }

    /// The next character. At the end of the file, returns an error that leaves errno as it was.
    fn get(&self) -> Result<Wint, Out> {
        let (mut state, mut wide, mut taken) = (ShiftState::default(), 0, 0);
        loop {
            // SAFETY: the stream is open, and this thread has locked it.
            let byte = unsafe { getc_unlocked(self.0) };
            let Ok(byte) = u8::try_from(byte) else {
                return Err(if taken == 0 { Out::Errno(errno()) } else { self.cannot_convert() });
            };
            taken += 1;
            // SAFETY: mbrtowc reads one byte, and writes to variables of this frame.
            match unsafe { mbrtowc(&raw mut wide, (&raw const byte).cast(), 1, &raw mut state) } {
                0 | 1 => return Ok(wide as Wint),
                length if length == usize::MAX - 1 => {} // the character is not complete
                _ => return Err(self.cannot_convert()),
            }
        }
    }

    /// Reads a line of fewer than `count` characters to `into`, followed by a zero.
    ///
    /// # Safety
    /// `into` has room for `count` characters.
    unsafe fn get_line(&self, into: *mut wchar_t, count: c_int) -> Result<*mut wchar_t, Out> {
        let most = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Out::Errno(errno()))? - 1;
        let mut got = 0;
        while got < most {
            match self.get() {
                Ok(wide) => {
                    let wide = wide as wchar_t;
                    // SAFETY: `into` has room for this character by the caller's promise.
                    unsafe { ffi::put(into.wrapping_add(got), wide) }?;
                    got += 1;
                    if wide == LINE_END {
                        break;
                    }
                }
                // SAFETY: the stream is open.
                Err(_) if got > 0 && unsafe { feof(self.0) } != 0 => break,
                Err(out) => return Err(out),
            }
        }
        // SAFETY: `into` has room for the zero by the caller's promise.
        unsafe { ffi::put(into.wrapping_add(got), 0) }?;
        Ok(into)
    }

    /// Writes characters.
    fn put(&self, text: impl Iterator<Item = wchar_t>) -> Result<(), Out> {
        let (mut piece, mut filled) = ([0; PIECE_BYTES], 0);
        let write = |bytes: &[u8]| {
            // SAFETY: the stream is open, and `bytes` is readable for its length.
            let written = unsafe { fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0) };
            if written < bytes.len() { Err(Out::Errno(errno())) } else { Ok(()) }
        };
        for wide in text {
            if filled > PIECE_BYTES - CHARACTER_BYTES_MAX {
                write(&piece[..filled])?;
                filled = 0;
            }
            let (bytes, length) = bytes_of(wide);
            piece[filled..filled + length].copy_from_slice(&bytes[..length]);
            filled += length;
        }
        if filled > 0 { write(&piece[..filled]) } else { Ok(()) }
    }

    fn put_one(&self, wide: wchar_t) -> Result<Wint, Out> {
        self.put(std::iter::once(wide)).map(|()| wide as Wint)
    }

    /// Writes the characters before a zero. Returns 1, as glibc does.
    ///
    /// # Safety
    /// `text` is a text of wide characters that ends with a zero.
    unsafe fn put_text(&self, text: *const wchar_t) -> Result<c_int, Out> {
        // SAFETY: the text has every character up to the zero, by the caller's promise.
        let at = |index| unsafe { text.wrapping_add(index).read_unaligned() };
        self.put((0..).map(at).take_while(|wide| *wide != 0)).map(|()| 1)
    }

    /// Pushes a character back, so that the next call reads it again.
    fn unget(&self, wide: Wint) -> Result<Wint, Out> {
        if wide == WEOF {
            return Err(Out::Errno(errno()));
        }
        let (bytes, length) = bytes_of(wide as wchar_t);
        for byte in bytes[..length].iter().rev() {
            // SAFETY: the stream is open, and this thread has locked it.
            kept(unsafe { ungetc(c_int::from(*byte), self.0) })?;
        }
        Ok(wide)
    }

    /// Prints as vfwprintf(3). `list` is C's `va_list` in the form in which functions get it: a
    /// pointer on both supported processors.
    ///
    /// # Safety
    /// `format` is a text of wide characters, and `list` has its arguments.
    unsafe fn print(&self, format: *const wchar_t, list: *mut c_void) -> Result<c_int, Out> {
        let (mut text, mut length) = (std::ptr::null_mut::<wchar_t>(), 0);
        // SAFETY: `text` and `length` outlive the stream in memory, which is closed here; format
        // and list belong together by the caller's promise.
        let (printed, failed) = unsafe {
            let memory = open_wmemstream(&raw mut text, &raw mut length);
            if memory.is_null() {
                return Err(Out::Errno(libc::ENOMEM));
            }
            let printed = kept(vfwprintf::real(memory, format, list));
            (printed, fclose(memory) != 0)
        };
        let outcome = match printed {
            Ok(_) if failed => Err(Out::Errno(libc::ENOMEM)),
            // SAFETY: the stream left a text of that length.
            Ok(printed) => self.put((0..length).map(|index| unsafe { *text.add(index) })).map(|()| printed),
            Err(out) => Err(out),
        };
        // SAFETY: open_wmemstream allocated the text with malloc, and no code uses it any more.
        unsafe { libc::free(text.cast()) };
        outcome
    }
}

impl Drop for Wide {
    fn drop(&mut self) {
        // SAFETY: `of` has locked the stream, which is open until the call has ended.
        unsafe { funlockfile(self.0) };
    }
}

/// The bytes of a character, and their number. A character that the locale's encoding does not have
/// is transliterated, as by glibc's streams: to "EUR", for example, or a question mark.
fn bytes_of(wide: wchar_t) -> ([u8; CHARACTER_BYTES_MAX], usize) {
    let (mut bytes, mut state) = ([0; CHARACTER_BYTES_MAX], ShiftState::default());
    // SAFETY: `bytes` has room for any character, and `state` lives in this frame.
    let length = unsafe { wcrtomb(bytes.as_mut_ptr().cast(), wide, &raw mut state) };
    if length <= CHARACTER_BYTES_MAX {
        return (bytes, length);
    }
    let length = spelled(wide, &mut bytes).unwrap_or_else(|| {
        bytes[0] = b'?';
        1
    });
    (bytes, length)
}

/// Transliterates a character without bytes of its own, as iconv(1) does with `//TRANSLIT`. Returns
/// the number of bytes, or `None` if that is impossible.
fn spelled(wide: wchar_t, bytes: &mut [u8; CHARACTER_BYTES_MAX]) -> Option<usize> {
    // SAFETY: nl_langinfo's name stays valid while it is copied. The names for iconv_open end with
    // a NUL. iconv gets an open converter, and places of this frame with their lengths.
    unsafe {
        let encoding = std::ffi::CStr::from_ptr(libc::nl_langinfo(libc::CODESET)).to_bytes();
        let to = [encoding, b"//TRANSLIT\0"].concat();
        let converter = libc::iconv_open(to.as_ptr().cast(), c"WCHAR_T".as_ptr());
        if converter as isize == -1 {
            return None;
        }
        let (mut from, mut from_left) = ((&raw const wide).cast::<c_char>().cast_mut(), size_of::<wchar_t>());
        let (mut into, mut left) = (bytes.as_mut_ptr().cast::<c_char>(), bytes.len());
        let converted = libc::iconv(converter, &raw mut from, &raw mut from_left, &raw mut into, &raw mut left);
        libc::iconv_close(converter);
        (converted != usize::MAX && left < bytes.len()).then_some(bytes.len() - left)
    }
}

/// [`Out::Pass`] if the program asks for more characters than it has room for. libc then ends the program.
fn checked(places: size_t, count: c_int) -> Result<(), Out> {
    if usize::try_from(count).is_ok_and(|count| count <= places) { Ok(()) } else { Err(Out::Pass) }
}

hooks! {
    /// fgetwc(3).
    fn fgetwc(stream: *mut FILE) -> Wint { Wide::of(stream)?.get() }
    /// getwc(3).
    fn getwc(stream: *mut FILE) -> Wint { Wide::of(stream)?.get() }
    /// getwchar(3).
    fn getwchar() -> Wint { Wide::standard(0)?.get() }
    /// unlocked_stdio(3).
    fn fgetwc_unlocked(stream: *mut FILE) -> Wint { Wide::of(stream)?.get() }
    /// unlocked_stdio(3).
    fn getwc_unlocked(stream: *mut FILE) -> Wint { Wide::of(stream)?.get() }
    /// unlocked_stdio(3).
    fn getwchar_unlocked() -> Wint { Wide::standard(0)?.get() }
    /// fgetws(3).
    fn fgetws(into: *mut wchar_t, count: c_int, stream: *mut FILE) -> *mut wchar_t { Wide::of(stream)?.get_line(into, count) }
    /// unlocked_stdio(3).
    fn fgetws_unlocked(into: *mut wchar_t, count: c_int, stream: *mut FILE) -> *mut wchar_t { Wide::of(stream)?.get_line(into, count) }
    /// fgetws(3), fortified.
    fn __fgetws_chk(into: *mut wchar_t, places: size_t, count: c_int, stream: *mut FILE) -> *mut wchar_t { checked(places, count)?; Wide::of(stream)?.get_line(into, count) }
    /// unlocked_stdio(3), fortified.
    fn __fgetws_unlocked_chk(into: *mut wchar_t, places: size_t, count: c_int, stream: *mut FILE) -> *mut wchar_t { checked(places, count)?; Wide::of(stream)?.get_line(into, count) }
    /// ungetwc(3).
    fn ungetwc(wide: Wint, stream: *mut FILE) -> Wint { Wide::of(stream)?.unget(wide) }
    /// fputwc(3).
    fn fputwc(wide: wchar_t, stream: *mut FILE) -> Wint { Wide::of(stream)?.put_one(wide) }
    /// putwc(3).
    fn putwc(wide: wchar_t, stream: *mut FILE) -> Wint { Wide::of(stream)?.put_one(wide) }
    /// putwchar(3).
    fn putwchar(wide: wchar_t) -> Wint { Wide::standard(1)?.put_one(wide) }
    /// unlocked_stdio(3).
    fn fputwc_unlocked(wide: wchar_t, stream: *mut FILE) -> Wint { Wide::of(stream)?.put_one(wide) }
    /// unlocked_stdio(3).
    fn putwc_unlocked(wide: wchar_t, stream: *mut FILE) -> Wint { Wide::of(stream)?.put_one(wide) }
    /// unlocked_stdio(3).
    fn putwchar_unlocked(wide: wchar_t) -> Wint { Wide::standard(1)?.put_one(wide) }
    /// fputws(3).
    fn fputws(text: *const wchar_t, stream: *mut FILE) -> c_int { Wide::of(stream)?.put_text(text) }
    /// unlocked_stdio(3).
    fn fputws_unlocked(text: *const wchar_t, stream: *mut FILE) -> c_int { Wide::of(stream)?.put_text(text) }
    /// fwide(3).
    fn fwide(stream: *mut FILE, wish: c_int) -> c_int { Ok(cookie::orient(ours(stream)?, wish)) }
    /// vfwprintf(3).
    fn vfwprintf(stream: *mut FILE, format: *const wchar_t, list: *mut c_void) -> c_int { Wide::of(stream)?.print(format, list) }
    /// vwprintf(3).
    fn vwprintf(format: *const wchar_t, list: *mut c_void) -> c_int { Wide::standard(1)?.print(format, list) }
    /// vfwprintf(3), fortified.
    fn __vfwprintf_chk(stream: *mut FILE, flag: c_int, format: *const wchar_t, list: *mut c_void) -> c_int { Wide::of(stream)?.print(format, list) }
    /// vwprintf(3), fortified.
    fn __vwprintf_chk(flag: c_int, format: *const wchar_t, list: *mut c_void) -> c_int { Wide::standard(1)?.print(format, list) }
}

/// The function for variadic calls on stdout, in which the argument before the format is not a stream.
///
/// # Safety
/// `format` and `list` are as vwprintf(3) requires.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn print_on_stdout(_place: usize, format: *const wchar_t, list: *mut c_void) -> c_int {
    // SAFETY: `format` and `list` belong together by the caller's promise.
    unsafe { vwprintf::hook(format, list) }
}

/// fwprintf(3).
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn fwprintf() {
    variadic!("16", "nop", vfwprintf::hook)
}

/// fwprintf(3), fortified: stream, flag, format.
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __fwprintf_chk() {
    variadic!("24", "mov rsi, rdx", vfwprintf::hook)
}

/// wprintf(3).
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn wprintf() {
    variadic!("8", "mov rsi, rdi", print_on_stdout)
}

/// wprintf(3), fortified: flag, format.
///
/// # Safety
/// As libc documents.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __wprintf_chk() {
    variadic!("16", "nop", print_on_stdout)
}
