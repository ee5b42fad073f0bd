//! Kubernetes' quantities, compared by value.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The value in thousandths; `None` when it is not a quantity or too large to matter.
pub fn milli(quantity: &Quantity) -> Option<i128> {
    let text = quantity.0.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || !fraction.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let thousandths = match suffix {
        "m" => 1,
        "" => 1000,
        "k" => 1000 * 1000,
        "Ki" => 1000 << 10,
        "M" => 1000 * 1000_i128.pow(2),
        "Mi" => 1000 << 20,
        "G" => 1000 * 1000_i128.pow(3),
        "Gi" => 1000 << 30,
        "T" => 1000 * 1000_i128.pow(4),
        "Ti" => 1000 << 40,
        "P" => 1000 * 1000_i128.pow(5),
        "Pi" => 1000 << 50,
        "E" => 1000 * 1000_i128.pow(6),
        "Ei" => 1000 << 60,
        exponent => {
            let power: u32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            1000 * 10_i128.checked_pow(power)?
        }
    };
    digits
        .checked_mul(thousandths)?
        .checked_div(10_i128.pow(fraction.len() as u32))
}

/// The larger of two sizes; `a` when they are equal or cannot be compared.
pub fn larger<'a>(a: &'a Quantity, b: &'a Quantity) -> &'a Quantity {
    match (milli(a), milli(b)) {
        (Some(x), Some(y)) if y > x => b,
        _ => a,
    }
}

/// Whether `a` is at least `b`; what cannot be read is compared as text.
pub fn at_least(a: &Quantity, b: &Quantity) -> bool {
    match (milli(a), milli(b)) {
        (Some(x), Some(y)) => x >= y,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("1Gi", "1024Mi")]
    #[case("1.5Gi", "1536Mi")]
    #[case("20e3", "20k")]
    #[case("0.1", "100m")]
    #[case("1E", "1000P")]
    fn a_size_written_differently_is_not_taken_for_a_growth(#[case] a: &str, #[case] b: &str) {
        let (a, b) = (Quantity(a.into()), Quantity(b.into()));
        assert_eq!(milli(&a), milli(&b));
        assert!(at_least(&a, &b) && at_least(&b, &a));
    }

    #[test]
    fn a_volume_never_shrinks() {
        let (small, large) = (Quantity("900Mi".into()), Quantity("1G".into()));
        assert_eq!(larger(&small, &large), &large);
        assert_eq!(larger(&large, &small), &large);
        assert!(!at_least(&small, &large));
    }
}
