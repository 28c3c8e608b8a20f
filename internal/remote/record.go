package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/gocoord/coord/backend"
)

// A Record is what an entry says about its claim, as JSON.
type Record struct {
	Format int    `json:"coord"`
	Mode   string `json:"mode"`
	Weight int64  `json:"weight,omitempty"`
	Limit  int64  `json:"limit,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Data   []byte `json:"data,omitempty"`
	Since  int64  `json:"since,omitempty"` // Unix time in milliseconds
	Token  uint64 `json:"token,omitempty"` // where the entry itself does not tell it
}

// RecordFormat is the Format of the records that Encode writes.
const RecordFormat = 1

const recordStart = `{"coord":`

// Encode writes a record by hand: encoding/json would take most of the time
// that a client spends on asking for a lock.
func Encode(c backend.Claim, since time.Time, token uint64) []byte {
	v := make([]byte, 0, 96+len(c.Owner)+2*len(c.Data))
	v = strconv.AppendInt(append(v, recordStart...), RecordFormat, 10)
	v = append(append(append(v, `,"mode":"`...), c.Mode.String()...), '"')
	if c.Weight != 0 {
		v = strconv.AppendInt(append(v, `,"weight":`...), c.Weight, 10)
	}
	if c.Limit != 0 {
		v = strconv.AppendInt(append(v, `,"limit":`...), c.Limit, 10)
	}
	if c.Owner != "" {
		v = appendString(append(v, `,"owner":`...), c.Owner)
	}
	if len(c.Data) > 0 {
		v = base64.StdEncoding.AppendEncode(append(v, `,"data":"`...), c.Data)
		v = append(v, '"')
	}
	v = strconv.AppendInt(append(v, `,"since":`...), since.UnixMilli(), 10)
	if token != 0 {
		v = strconv.AppendUint(append(v, `,"token":`...), token, 10)
	}
	return append(v, '}')
}

// appendString appends a JSON string.
func appendString(v []byte, s string) []byte {
	special := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	if strings.IndexFunc(s, special) < 0 {
		return append(append(append(v, '"'), s...), '"')
	}
	quoted, _ := json.Marshal(s) // a string always can be
	return append(v, quoted...)
}

// Decode reads a record. It answers false for what is none.
func Decode(v []byte) (Record, bool) {
	var r Record
	return r, bytes.HasPrefix(v, []byte(recordStart)) && json.Unmarshal(v, &r) == nil
}
