//! strftime for UTC: the directives that chat templates use.

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];

struct CivilTime {
    year: i64,
    month: usize, // 1..=12
    day: i64,     // 1..=31
    weekday: usize,
    day_of_year: i64, // 1..=366
    hour: i64,
    minute: i64,
    second: i64,
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn civil(unix_seconds: i64) -> CivilTime {
    // Keeps the arithmetic below far from overflow: years -9999..9999 are all anybody shows.
    let unix_seconds = unix_seconds.clamp(-370_000_000_000, 250_000_000_000);
    let days = unix_seconds.div_euclid(86_400);
    let second_of_day = unix_seconds.rem_euclid(86_400);
    // Gregorian calendar in eras of 400 years that start on 1 March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_march_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_march_year + 2) / 153;
    let day = day_of_march_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 } as usize;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month - 1];
    CivilTime {
        year,
        month,
        day,
        weekday: (days + 4).rem_euclid(7) as usize,
        day_of_year: before + day + i64::from(month > 2 && is_leap(year)),
        hour: second_of_day / 3_600,
        minute: second_of_day / 60 % 60,
        second: second_of_day % 60,
    }
}

/// `format` with its % directives replaced. A directive that is not listed is an error that names it.
pub fn strftime(format: &str, unix_seconds: i64) -> Result<String, String> {
    let time = civil(unix_seconds);
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next().ok_or("strftime_now: the format ends in '%'")?;
        let padded = directive != '-';
        if !padded {
            directive = chars.next().ok_or("strftime_now: the format ends in '%-'")?;
        }
        let number = |value: i64, width: usize| {
            if padded { format!("{value:0width$}") } else { value.to_string() }
        };
        let hour12 = if time.hour % 12 == 0 { 12 } else { time.hour % 12 };
        let text = match directive {
            'Y' => number(time.year, 4),
            'y' => number(time.year.rem_euclid(100), 2),
            'm' => number(time.month as i64, 2),
            'd' => number(time.day, 2),
            'e' => format!("{:2}", time.day),
            'H' => number(time.hour, 2),
            'I' => number(hour12, 2),
            'M' => number(time.minute, 2),
            'S' => number(time.second, 2),
            'f' => "000000".to_string(),
            'j' => number(time.day_of_year, 3),
            'p' => if time.hour < 12 { "AM" } else { "PM" }.to_string(),
            'A' => DAYS[time.weekday].to_string(),
            'a' => DAYS[time.weekday][..3].to_string(),
            'B' => MONTHS[time.month - 1].to_string(),
            'b' | 'h' => MONTHS[time.month - 1][..3].to_string(),
            'w' => time.weekday.to_string(),
            'u' => if time.weekday == 0 { 7 } else { time.weekday }.to_string(),
            'F' => strftime("%Y-%m-%d", unix_seconds)?,
            'T' | 'X' => strftime("%H:%M:%S", unix_seconds)?,
            'R' => strftime("%H:%M", unix_seconds)?,
            'D' | 'x' => strftime("%m/%d/%y", unix_seconds)?,
            'c' => strftime("%a %b %e %H:%M:%S %Y", unix_seconds)?,
            'Z' => "UTC".to_string(),
            'z' => "+0000".to_string(),
            's' => unix_seconds.to_string(),
            'n' => "\n".to_string(),
            't' => "\t".to_string(),
            '%' => "%".to_string(),
            other => return Err(format!("strftime_now: unknown directive '%{other}'")),
        };
        out.push_str(&text);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::strftime;

    #[test]
    fn known_dates() {
        assert_eq!(strftime("%d %b %Y, %A %j", 0).unwrap(), "01 Jan 1970, Thursday 001");
        assert_eq!(strftime("%F %T %I%p", 951_782_399).unwrap(), "2000-02-28 23:59:59 11PM");
        assert_eq!(strftime("%F %a %j", 951_782_400).unwrap(), "2000-02-29 Tue 060");
        assert_eq!(strftime("%-d/%-m/%y", 1_735_689_600).unwrap(), "1/1/25");
        assert_eq!(strftime("%F", -1).unwrap(), "1969-12-31");
        assert!(strftime("%Q", 0).is_err());
        assert!(strftime("%", 0).is_err());
    }
}
