//! Arrays of a request, written in one piece, and of a response, read in place.
//!
//! A New-Order's response contains six arrays. The driver needs only the number and the total of the lines, and
//! makes no vector or text of the rest.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// An array of `int4`, without NULLs. The library's own type writes each element through generic layers.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Numbers(pub(super) Vec<i32>);

impl ToSql for Numbers {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.reserve(HEAD + 8 * self.0.len());
        out.put_i32(1);
        out.put_i32(0);
        out.put_u32(Type::INT4.oid());
        out.put_i32(i32::try_from(self.0.len())?);
        out.put_i32(1);
        for number in &self.0 {
            // Length of the element, and the element.
            out.put_i32(4);
            out.put_i32(*number);
        }
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::INT4_ARRAY
    }

    to_sql_checked!();
}

/// Number of elements of an array; 0 if it is NULL.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) usize);

/// Number and sum of the elements of an `int8` array; 0 if it is NULL.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) count: usize,
    pub(super) sum: i64,
}

/// Bytes of the header of a one-dimensional array: dimensions, whether there are NULLs, type of the elements,
/// number of elements, index of the first.
const HEAD: usize = 20;

fn number(raw: &[u8], at: usize) -> Result<i32, Box<dyn Error + Sync + Send>> {
    let bytes = raw.get(at..).and_then(<[u8]>::first_chunk).ok_or("an array is cut short")?;
    Ok(i32::from_be_bytes(*bytes))
}

fn count(raw: &[u8]) -> Result<usize, Box<dyn Error + Sync + Send>> {
    match number(raw, 0)? {
        0 => Ok(0),
        1 => Ok(usize::try_from(number(raw, 12)?)?),
        dimensions => Err(format!("an array has {dimensions} dimensions").into()),
    }
}

impl<'a> FromSql<'a> for Count {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        count(raw).map(Self)
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::default())
    }

    fn accepts(of: &Type) -> bool {
        [Type::VARCHAR_ARRAY, Type::INT4_ARRAY, Type::INT8_ARRAY].contains(of)
    }
}

impl<'a> FromSql<'a> for Sum {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let count = count(raw)?;
        let elements = raw.get(HEAD..).unwrap_or_default();
        let mut sum = 0;
        for element in elements.chunks(12) {
            match element.first_chunk().map(|length| i32::from_be_bytes(*length)) {
                Some(8) if element.len() == 12 => {
                    let value = element[4..].first_chunk().map_or(0, |value| i64::from_be_bytes(*value));
                    sum += value;
                }
                _ => return Err("an element is not an int8".into()),
            }
        }
        if elements.len() != 12 * count {
            return Err(format!("{count} elements in {} bytes", elements.len()).into());
        }
        Ok(Self { count, sum })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::default())
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::INT8_ARRAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<T: ToSql>(value: &T, of: &Type) -> BytesMut {
        let mut raw = BytesMut::new();
        assert!(matches!(value.to_sql(of, &mut raw), Ok(IsNull::No)));
        raw
    }

    #[test]
    fn an_array_of_numbers_is_written_as_the_library_writes_it() {
        for numbers in [vec![7], vec![1, -1, i32::MAX, i32::MIN]] {
            assert_eq!(written(&Numbers(numbers.clone()), &Type::INT4_ARRAY), written(&numbers, &Type::INT4_ARRAY));
        }
        assert!(!<Numbers as ToSql>::accepts(&Type::INT8_ARRAY));
    }

    #[test]
    fn arrays_are_counted_and_added_up_as_they_were_written() {
        let amounts = vec![5_i64, -7, i64::from(i32::MAX) + 1];
        let raw = written(&amounts, &Type::INT8_ARRAY);
        assert_eq!(Sum::from_sql(&Type::INT8_ARRAY, &raw).unwrap(), Sum { count: 3, sum: amounts.iter().sum() });
        assert_eq!(Count::from_sql(&Type::INT8_ARRAY, &raw).unwrap(), Count(3));
        let names = written(&vec!["a", "", "bcd"], &Type::VARCHAR_ARRAY);
        assert_eq!(Count::from_sql(&Type::VARCHAR_ARRAY, &names).unwrap(), Count(3));
        let empty = written(&Vec::<i64>::new(), &Type::INT8_ARRAY);
        assert_eq!(Sum::from_sql(&Type::INT8_ARRAY, &empty).unwrap(), Sum::default());
        assert_eq!(Sum::from_sql_null(&Type::INT8_ARRAY).unwrap(), Sum::default());
    }

    #[test]
    fn what_is_no_such_array_is_an_error_and_not_a_number() {
        let raw = written(&vec![1_i64, 2], &Type::INT8_ARRAY);
        for end in [0, 3, 15, 19, 25, raw.len() - 1] {
            assert!(Sum::from_sql(&Type::INT8_ARRAY, &raw[..end]).is_err(), "{end} bytes");
        }
        let with_null = written(&vec![Some(1_i64), None], &Type::INT8_ARRAY);
        assert!(Sum::from_sql(&Type::INT8_ARRAY, &with_null).is_err());
        assert!(!Sum::accepts(&Type::INT4_ARRAY) && !Count::accepts(&Type::INT8));
    }
}
