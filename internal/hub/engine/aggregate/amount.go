package aggregate

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"

	"gopkg.in/inf.v0"
)

// amount is a decimal number. All arithmetic is exact, so the order of additions does not matter,
// and a sum without its summands is 0.
type amount struct {
	small int64
	// big is the number if it is not a small integer.
	big *inf.Dec
}

func whole(n int64) amount { return amount{small: n} }

// amountOf returns the shortest decimal number that is parsed as a float: the number as written in
// JSON.
func amountOf(f float64) amount {
	if n := int64(f); float64(n) == f && n > math.MinInt64 && n < math.MaxInt64 {
		return whole(n)
	}
	d, _ := new(inf.Dec).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	return exact(d)
}

// exact returns the amount of a decimal number in canonical form.
func exact(d *inf.Dec) amount {
	if d.Scale() <= 0 || isWhole(d) {
		n := new(inf.Dec).Round(d, 0, inf.RoundExact)
		if n != nil && n.UnscaledBig().IsInt64() {
			return whole(n.UnscaledBig().Int64())
		}
	}
	return amount{big: shortened(d)}
}

// shortened removes zeros at the end of the fraction, which sums would accumulate.
func shortened(d *inf.Dec) *inf.Dec {
	ten, left := big.NewInt(10), new(big.Int)
	n, scale := new(big.Int).Set(d.UnscaledBig()), d.Scale()
	for scale > 0 {
		shorter, _ := new(big.Int).QuoRem(n, ten, left)
		if left.Sign() != 0 {
			break
		}
		n, scale = shorter, scale-1
	}
	return inf.NewDecBig(n, scale)
}

func isWhole(d *inf.Dec) bool {
	if d.Scale() <= 0 {
		return true
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.Scale())), nil)
	return new(big.Int).Rem(d.UnscaledBig(), unit).Sign() == 0
}

func (a amount) dec() *inf.Dec {
	if a.big != nil {
		return a.big
	}
	return inf.NewDec(a.small, 0)
}

func (a amount) plus(b amount) amount {
	if a.big == nil && b.big == nil {
		if sum := a.small + b.small; (sum > a.small) == (b.small > 0) {
			return whole(sum)
		}
	}
	return exact(new(inf.Dec).Add(a.dec(), b.dec()))
}

func (a amount) negated() amount {
	if a.big == nil && a.small != math.MinInt64 {
		return whole(-a.small)
	}
	return exact(new(inf.Dec).Neg(a.dec()))
}

func (a amount) compare(b amount) int {
	if a.big == nil && b.big == nil {
		switch {
		case a.small < b.small:
			return -1
		case a.small > b.small:
			return 1
		}
		return 0
	}
	return a.dec().Cmp(b.dec())
}

// isWhole reports whether there is no fraction.
func (a amount) isWhole() bool { return a.big == nil || a.big.Scale() <= 0 }

// rat returns the amount as a fraction.
func (a amount) rat() *big.Rat {
	d := a.dec()
	r := new(big.Rat).SetInt(d.UnscaledBig())
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.Scale(), -d.Scale()))), nil)
	if d.Scale() > 0 {
		return r.Quo(r, new(big.Rat).SetInt(unit))
	}
	return r.Mul(r, new(big.Rat).SetInt(unit))
}

// over returns the amount divided by a number, rounded half up to some decimal places.
func (a amount) over(n int64, digits inf.Scale) amount {
	return exact(new(inf.Dec).QuoRound(a.dec(), inf.NewDec(n, 0), digits, inf.RoundHalfUp))
}

// text returns the amount in digits.
func (a amount) text() string {
	if a.big != nil {
		return a.big.String()
	}
	return strconv.FormatInt(a.small, 10)
}

// size returns the approximate size besides the struct, in bytes.
func (a amount) size() int {
	if a.big == nil {
		return 0
	}
	return 64 + len(a.big.UnscaledBig().Bits())*bits.UintSize/8
}
