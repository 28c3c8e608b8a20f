package remote_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/gocoord/coord/backend"
	"github.com/gocoord/coord/internal/remote"
)

// What is written by hand says the same as what encoding/json would write.
func TestEncode(t *testing.T) {
	since := time.UnixMilli(1764547200123)
	for _, c := range []backend.Claim{
		{Mode: backend.Exclusive},
		{Mode: backend.Shared, Owner: "host/12"},
		{Mode: backend.Permit, Weight: 2, Limit: 1 << 40, Owner: "a \"b\" \\ <c> & \x01\n\t é \u2028 \xff ~"},
		{Mode: backend.Presence, Data: []byte{0, 1, 0xff, '"'}},
	} {
		for _, token := range []uint64{0, 1 << 63} {
			want := remote.Record{
				Format: remote.RecordFormat, Mode: c.Mode.String(), Weight: c.Weight, Limit: c.Limit,
				Owner: c.Owner, Data: c.Data, Since: since.UnixMilli(), Token: token,
			}
			text, err := json.Marshal(want)
			if err == nil {
				err = json.Unmarshal(text, &want) // which mends what is not UTF-8
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := remote.Decode(remote.Encode(c, since, token)); !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %+v, %v; want %+v", c, got, ok, want)
			}
		}
	}
	for _, foreign := range []string{"", "x", "{}", `{"coord":`, `{"coord":"x"}`, `[{"coord":1}]`} {
		if r, ok := remote.Decode([]byte(foreign)); ok {
			t.Errorf("%q is taken for the record %+v", foreign, r)
		}
	}
}
