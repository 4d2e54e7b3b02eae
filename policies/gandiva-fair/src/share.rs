//! Fair shares and the trade of GPU types (Chaudhary et al., EuroSys 2020).

/// One exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trade {
    /// The user that sells its share of the fast type.
    pub seller: usize,
    /// The user that buys it.
    pub buyer: usize,
    /// How much of the slow type one of the fast costs.
    pub price: f64,
}

/// Users that hold both trade shares of a slow type for shares of a fast one: the user that gains the least from the fast
/// type sells to the one that gains the most, at the second highest gain, until no trade is left. `speed_up`: rate on the
/// fast type over that on the slow one.
pub fn trade(slow: &mut [f64], fast: &mut [f64], speed_up: &[f64]) -> Vec<Trade> {
    let mut trades = Vec::new();
    let has_both = |slow: &[f64], fast: &[f64], user: usize| slow[user] > 1e-12 && fast[user] > 1e-12;
    let mut both: Vec<usize> = (0..slow.len()).filter(|user| has_both(slow, fast, *user)).collect();
    both.sort_by(|a, b| speed_up[*a].total_cmp(&speed_up[*b]).then(b.cmp(a)));
    // Only the first and the last of the list trade, so a user that has left it never has both again.
    let mut both = both.as_slice();
    // Each trade uses up a user's share of a type.
    for _ in 0..2 * slow.len() {
        let (seller, second, buyer) = match both {
            [seller, buyer] => (*seller, *seller, *buyer),
            [seller, .., second, buyer] => (*seller, *second, *buyer),
            _ => break,
        };
        let price = speed_up[second];
        if speed_up[buyer] <= speed_up[seller] {
            break;
        }
        let amount = (slow[buyer] / price).min(fast[seller]);
        slow[buyer] -= amount * price;
        slow[seller] += amount * price;
        fast[seller] -= amount;
        fast[buyer] += amount;
        trades.push(Trade { seller, buyer, price });
        if !has_both(slow, fast, seller) {
            both = &both[1..];
        }
        if !has_both(slow, fast, buyer) {
            both = &both[..both.len() - 1];
        }
    }
    trades
}

#[cfg(test)]
mod tests {
    use sandtable_policy::Draws;

    use super::*;

    fn near(found: &[f64], expected: &[f64]) {
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close && found.len() == expected.len(), "{found:?}, expected {expected:?}");
    }

    /// Worked out apart from this code.
    #[test]
    fn golden_trades() {
        let (mut slow, mut fast) = (vec![0.33, 0.33, 0.34], vec![0.33, 0.33, 0.34]);
        let trades = trade(&mut slow, &mut fast, &[4.0, 6.0, 8.0]);
        let expected = [Trade { seller: 0, buyer: 2, price: 6.0 }, Trade { seller: 0, buyer: 1, price: 4.0 }];
        assert_eq!(trades, expected);
        near(&slow, &[1.0, 0.0, 0.0]);
        near(&fast, &[0.190_833_3, 0.4125, 0.396_666_7]);
        let (mut slow, mut fast) = (vec![8.0; 2], vec![4.0; 2]);
        trade(&mut slow, &mut fast, &[1.2, 3.0]);
        near(&slow, &[12.8, 3.2]);
        near(&fast, &[0.0, 8.0]);
        let (mut slow, mut fast) = (vec![8.0; 3], vec![4.0; 3]);
        trade(&mut slow, &mut fast, &[1.2, 2.0, 3.0]);
        near(&slow, &[16.0, 8.0, 0.0]);
        near(&fast, &[0.0, 4.0, 8.0]);
    }

    /// Sorts all users that hold both at each trade.
    fn trade_by_sorting(slow: &mut [f64], fast: &mut [f64], speed_up: &[f64]) -> Vec<Trade> {
        let mut trades = Vec::new();
        for _ in 0..2 * slow.len() {
            let mut both: Vec<usize> =
                (0..slow.len()).filter(|user| slow[*user] > 1e-12 && fast[*user] > 1e-12).collect();
            both.sort_by(|a, b| speed_up[*a].total_cmp(&speed_up[*b]).then(b.cmp(a)));
            let (seller, second, buyer) = match both.as_slice() {
                [seller, buyer] => (*seller, *seller, *buyer),
                [seller, .., second, buyer] => (*seller, *second, *buyer),
                _ => break,
            };
            let price = speed_up[second];
            if speed_up[buyer] <= speed_up[seller] {
                break;
            }
            let amount = (slow[buyer] / price).min(fast[seller]);
            slow[buyer] -= amount * price;
            slow[seller] += amount * price;
            fast[seller] -= amount;
            fast[buyer] += amount;
            trades.push(Trade { seller, buyer, price });
        }
        trades
    }

    #[test]
    fn trades_are_those_of_a_sort_before_each() {
        let mut draws = Draws::new(2);
        let mut made = 0;
        for _ in 0..10_000 {
            let users = 1 + draws.below(9);
            let mut some = |of: &[f64]| (0..users).map(|_| of[draws.below(of.len())]).collect::<Vec<f64>>();
            let (slow, fast) = (some(&[0.0, 1.0, 2.5, 1.0 / 3.0]), some(&[0.0, 1.0, 0.1, 7.0]));
            let speed_up = some(&[1.0, 1.5, 2.0, 1.0 / 0.7, 3.0, 1e9]);
            let ((mut s, mut f), (mut slow, mut fast)) = ((slow.clone(), fast.clone()), (slow, fast));
            let expected = trade_by_sorting(&mut s, &mut f, &speed_up);
            assert_eq!(trade(&mut slow, &mut fast, &speed_up), expected);
            assert_eq!((slow, fast), (s, f));
            made += expected.len();
        }
        // Not one each on average would be a test of little.
        assert!(made > 10_000, "{made}");
    }

    #[test]
    fn nothing_is_made_or_lost() {
        let (mut slow, mut fast) = (vec![5.0, 1.0, 0.0, 2.0], vec![0.0, 3.0, 1.0, 2.0]);
        trade(&mut slow, &mut fast, &[2.5, 1.0, 4.0, 2.5]);
        assert!((slow.iter().sum::<f64>() - 8.0).abs() < 1e-9);
        assert!((fast.iter().sum::<f64>() - 6.0).abs() < 1e-9);
        assert!(slow.iter().chain(&fast).all(|x| *x > -1e-9));
    }
}
