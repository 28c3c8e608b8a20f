package backend

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Query holds the parameters of a config URL. A driver asks for those it
// knows; what it did not ask for is an error, so no driver can forget to be
// strict. Malformed values are remembered, too, and reported by Parse.
type Query struct {
	values map[string]string
	asked  []Param
	errs   []error
}

// A Param describes a parameter that a driver asked for.
type Param struct {
	Name    string
	Default string
	Doc     string
}

// String asks for a text.
func (q *Query) String(name, def, doc string) string {
	s, ok := q.ask(name, def, doc)
	if !ok {
		return def
	}
	return s
}

// OneOf asks for one of several words, the first of which is the default.
func (q *Query) OneOf(name string, words []string, doc string) string {
	s, ok := q.ask(name, words[0], doc+" ("+strings.Join(words, ", ")+")")
	if !ok {
		return words[0]
	}
	if !slices.Contains(words, s) {
		q.bad(name, "want "+strings.Join(words, " or "))
		return words[0]
	}
	return s
}

// Duration asks for a duration between lowest and highest, written as in "10s".
func (q *Query) Duration(name string, def, lowest, highest time.Duration, doc string) time.Duration {
	s, ok := q.ask(name, def.String(), doc)
	if !ok {
		return def
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		q.bad(name, `want a number and its unit, as in "10s" or "500ms"`)
	case d < lowest || d > highest:
		q.bad(name, fmt.Sprintf("want %v to %v", lowest, highest))
	default:
		return d
	}
	return def
}

// Int asks for a whole number between lowest and highest.
func (q *Query) Int(name string, def, lowest, highest int, doc string) int {
	s, ok := q.ask(name, strconv.Itoa(def), doc)
	if !ok {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < lowest || n > highest {
		q.bad(name, fmt.Sprintf("want a whole number from %d to %d", lowest, highest))
		return def
	}
	return n
}

// Bool asks for true or false.
func (q *Query) Bool(name string, def bool, doc string) bool {
	s, ok := q.ask(name, strconv.FormatBool(def), doc)
	if !ok {
		return def
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		q.bad(name, "want true or false")
		return def
	}
	return b
}

func (q *Query) ask(name, def, doc string) (value string, given bool) {
	q.asked = append(q.asked, Param{Name: name, Default: def, Doc: doc})
	value, given = q.values[name]
	return value, given
}

// bad does not quote the value: it may be a secret in the wrong place.
func (q *Query) bad(name, want string) {
	q.errs = append(q.errs, fmt.Errorf("%w: parameter %s: %s", ErrInvalid, name, want))
}

// check gathers what is wrong with the parameters.
func (q *Query) check() error {
	known := make([]string, len(q.asked))
	for i, p := range q.asked {
		known[i] = p.Name
	}
	unknown := make([]string, 0, len(q.values))
	for name := range q.values {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	errs := slices.Clone(q.errs)
	for _, name := range unknown {
		hint := "it takes " + strings.Join(known, ", ")
		if len(known) == 0 {
			hint = "it takes none"
		} else if near := nearest(name, known); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		errs = append(errs, fmt.Errorf("%w: unknown parameter %s; %s", ErrInvalid, name, hint))
	}
	return errors.Join(errs...)
}

// splitQuery reads "a=b&c=d". Repeated parameters are remembered as errors.
func splitQuery(s string) (*Query, error) {
	q := &Query{values: make(map[string]string)}
	if s == "" {
		return q, nil
	}
	for i, pair := range strings.Split(s, "&") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !isParam(name) {
			return nil, invalidURL("parameter number %d is not name=value", i+1)
		}
		value, err := unescape(value)
		if err != nil {
			return nil, invalidURL("parameter %s: %w", name, err)
		}
		if _, twice := q.values[name]; twice {
			q.bad(name, "given twice")
		}
		q.values[name] = value
	}
	return q, nil
}

func isParam(s string) bool {
	for _, c := range []byte(s) {
		if !unreserved(c) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// nearest returns the word that a misspelt one most likely means, or "".
func nearest(word string, known []string) string {
	best, least := "", 1+max(1, len(word)/2)
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
