package enroll

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"orrery.dev/orrery/internal/lib/jsonsplice"
	"orrery.dev/orrery/internal/protocol/key"
)

// Record is what the hub's log keeps of a location's enrolment: which of its credentials
// are good. It is a value: methods return what it becomes.
//
// A credential that is issued is good besides the one in use, until it is used itself;
// then the one before is spent. An agent keeps a credential on its disk before it uses
// it, and uses none again that is older. So who shows one that is spent is a second user
// of it, and nobody can say which of the two is the location's.
type Record struct {
	// Location is the UID of the location: one that is made again under the same
	// name is another location.
	Location string `json:"location"`
	// Hash and Created are of a token that lasts, as former versions made them. It is
	// good until a credential that it was traded for is used.
	Hash    string `json:"hash,omitempty"`
	Created string `json:"created,omitempty"`
	// Join is the last join token that was made.
	Join *JoinToken `json:"join,omitempty"`
	// Joined is the number of the first credential of the last join, Issued the newest
	// credential, and Used the newest that was used.
	Joined uint64 `json:"joined,omitempty"`
	Issued Mark   `json:"issued,omitzero"`
	Used   Mark   `json:"used,omitzero"`
	// Revoked says that no credential is good until the location is joined anew.
	Revoked *Revocation `json:"revoked,omitempty"`
	// Readmits is a spent credential that an operator has readmitted: it can be renewed until
	// the one that follows it is used.
	Readmits *Mark `json:"readmits,omitempty"`
	// Shard is the number of the agent that the record is of, if several share the location
	// and it is not the first; Shards has the records of those, in that of the first.
	Shard  int            `json:"shard,omitempty"`
	Shards map[int]Record `json:"shards,omitempty"`
}

// Of is the part of a location's record that is about one of its agents, by the number of its
// shard. The first, which is that of the whole, too, has all but the others.
func (r Record) Of(number int) Record {
	if number <= 1 {
		return r
	}
	of, ok := r.Shards[number]
	if !ok {
		of = Record{Shard: number}
	}
	of.Location = r.Location
	return of
}

// With is a location's record with another part for the agent that the part is of.
func (r Record) With(part Record) Record {
	if part.Shard <= 1 {
		return part
	}
	shards := maps.Clone(r.Shards)
	if shards == nil {
		shards = map[int]Record{}
	}
	shards[part.Shard] = part
	r.Shards = shards
	return r
}

// All are the parts of the record, by the numbers of the shards.
func (r Record) All() []Record {
	all := []Record{r}
	for _, number := range slices.Sorted(maps.Keys(r.Shards)) {
		all = append(all, r.Of(number))
	}
	return all
}

// RevokeAll is the record after nothing is good any more of any agent of the location.
func (r Record) RevokeAll(why Revocation) Record {
	next := r
	// Also those that this record does not know: it may be a copy from before they have joined.
	for number := 2; number <= key.MaxShards; number++ {
		next = next.With(r.Of(number).Revoke(why))
	}
	return next.Revoke(why)
}

// Mark is a credential as its record knows it.
type Mark struct {
	Number uint64 `json:"number"`
	Key    string `json:"key"`
}

// JoinToken is what is kept of a join token.
type JoinToken struct {
	// Hash is the SHA-256 digest of the token's secret; the secret has the
	// entropy of a key, so it needs no salt.
	Hash    string    `json:"hash"`
	Expires time.Time `json:"expires"`
	// Key is the digest of the key that it was traded for; empty: not used yet.
	Key string `json:"key,omitempty"`
}

// Revocation says since when and why no credential is good.
type Revocation struct {
	At time.Time `json:"at"`
	// Reused says that a spent credential was shown; else somebody revoked the enrolment.
	Reused bool `json:"reused,omitempty"`
	// Shown is that credential.
	Shown *Mark `json:"shown,omitempty"`
	// Message says more.
	Message string `json:"message"`
}

// What is wrong with a join token or a credential.
var (
	ErrUnknownJoin = errors.New("the join token is not one of this hub, or a newer one was made, or its location is gone")
	ErrJoinUsed    = errors.New("the join token was used already: it works once")
	ErrJoinExpired = errors.New("the join token has expired")
	ErrOther       = errors.New("the credential is one of another location, or of one that was removed")
	ErrSuperseded  = errors.New("another agent has joined the location since")
	ErrSpent       = errors.New("the credential was renewed, and the new one is in use")
	ErrRevoked     = errors.New("the enrolment of the location was revoked")
	ErrReadmitted  = errors.New("an operator has readmitted the agent that has this credential, which is to be renewed")
	// ErrNoReuse is of Readmit.
	ErrNoReuse = errors.New("the agent is not locked out since a spent credential was shown")
)

// ParseRecord reads the record of the location that has a UID. Without a value, or with
// that of another location, there is nothing in it. By one that makes no sense nothing
// is good.
func ParseRecord(value []byte, uid string) Record {
	r := Record{Location: uid}
	if len(value) == 0 {
		return r
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return Record{Location: uid, Revoked: &Revocation{Message: "the record of the enrolment can't be read"}}
	}
	if r.Location != uid {
		return Record{Location: uid}
	}
	return r
}

// EncodeOver is what the log keeps of a record in place of a value that it has of the same
// location: fields of that value which this version of the hub does not know stay.
func (r Record) EncodeOver(value []byte) []byte {
	whole := r.Encode()
	if len(value) == 0 {
		return whole
	}
	var old Record
	if json.Unmarshal(value, &old) != nil || old.Location != r.Location {
		return whole
	}
	changed, err := jsonsplice.Differing(old.Encode(), whole, "shards")
	if err != nil {
		return whole
	}
	over, err := jsonsplice.Copy(value, whole, changed...)
	if err != nil {
		return whole
	}
	return over
}

// Encode is what the log keeps.
func (r Record) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil { // a struct of strings and times that are in range
		panic(err)
	}
	return b
}

// joinPrefix tells join tokens from all others.
const joinPrefix = "orr_j_"

// WithJoin is the record with a new join token for the location, which it replaces the
// one before with. What is good stays so until the token is used.
func (r Record) WithJoin(l key.Location, expires time.Time) (token string, next Record) {
	secret := rand.Text()
	r.Join = &JoinToken{Hash: hash(secret), Expires: expires.UTC().Truncate(time.Second)}
	return r.tokenPrefix(l) + secret, r
}

// tokenPrefix is how join tokens begin by which the agent of the record joins.
func (r Record) tokenPrefix(l key.Location) string {
	if r.Shard > 1 {
		return fmt.Sprintf("%s%s/%d.", joinPrefix, l, r.Shard)
	}
	return joinPrefix + string(l) + "."
}

// IsJoin says whether a token claims to be a join token.
func IsJoin(token string) bool { return strings.HasPrefix(token, joinPrefix) }

// TokenOf is the location that a join token, or one of former versions, claims to be of, and
// the number of the shard.
func TokenOf(token string) (l key.Location, shard int, ok bool) {
	of, _, ok := strings.Cut(strings.TrimPrefix(token, joinPrefix), ".")
	name, number, sharded := strings.Cut(of, "/")
	shard = 1
	if sharded {
		var err error
		if shard, err = strconv.Atoi(number); err != nil || shard <= 1 || shard > key.MaxShards {
			return "", 0, false
		}
	}
	return key.Location(name), shard, ok && key.ValidateName(name) == nil
}

// Trade is the record after a join token, or the token of a former version, was traded
// for a credential of a key. One that was traded for that key is traded again as long as
// nothing else has happened: the answer may have been lost.
func (r Record) Trade(l key.Location, token, of string, now time.Time) (Credential, Record, error) {
	secret, ok := strings.CutPrefix(token, r.tokenPrefix(l))
	if !ok {
		return r.tradeLasting(l, token, of)
	}
	switch {
	case r.Join == nil || !same(secret, r.Join.Hash):
		return Credential{}, r, ErrUnknownJoin
	case r.Join.Key == of && r.Issued == Mark{r.Joined, of} && r.Revoked == nil:
		return r.credential(l), r, nil
	case r.Join.Key != "":
		return Credential{}, r, ErrJoinUsed
	case !now.Before(r.Join.Expires):
		return Credential{}, r, ErrJoinExpired
	}
	// What was good before is superseded at once. The time is in the number, so that this
	// is also true of what a log has forgotten that is a copy.
	join := *r.Join
	join.Key = of
	r.Join, r.Hash, r.Created, r.Revoked, r.Readmits = &join, "", "", nil, nil
	r.Joined = max(r.Issued.Number+1, r.Used.Number+1, uint64(max(0, now.Unix())))
	r.Issued = Mark{r.Joined, of}
	r.Used = r.Issued
	return r.credential(l), r, nil
}

// tradeLasting trades a token that lasts.
func (r Record) tradeLasting(l key.Location, token, of string) (Credential, Record, error) {
	if err := r.JudgeLasting(token); err != nil {
		return Credential{}, r, err
	}
	r.Joined = max(r.Joined, 1)
	return r.credentialOf(l, of)
}

// JudgeLasting says what is wrong with a token of a former version, which lasted.
func (r Record) JudgeLasting(token string) error {
	_, secret, ok := strings.Cut(token, ".")
	switch {
	case !ok || r.Hash == "" || !same(secret, r.Hash): // strangers are told nothing else
		return ErrUnknownJoin
	case r.Revoked != nil:
		return ErrRevoked
	}
	return nil
}

// Judge says what is wrong with a credential; nil: it is good. news says that its use is
// to be noted by Use.
func (r Record) Judge(c Credential) (news bool, err error) {
	switch {
	case c.UID != r.Location || c.number() != max(1, r.Shard):
		return false, ErrOther
	case r.Readmitted(c):
		return false, ErrReadmitted
	case r.Revoked != nil:
		return false, ErrRevoked
	case c.Joined < r.Joined:
		return false, ErrSuperseded
	case c.Joined > r.Joined, c.Number > r.Issued.Number:
		return true, nil // the log is a copy from before it was issued
	case c.Mark() == r.Used:
		return false, nil
	case c.Mark() == r.Issued:
		return true, nil
	}
	return false, ErrSpent
}

// JudgeFormer says what is wrong with a credential of an authority that was replaced. Only
// what the record itself names is good: who has the key of that authority can make others,
// by which nothing is spent, and nobody is found out.
func (r Record) JudgeFormer(c Credential) error {
	switch {
	case c.UID != r.Location || c.number() != max(1, r.Shard):
		return ErrOther
	case r.Revoked != nil:
		return ErrRevoked
	case c.Joined != r.Joined:
		return ErrSuperseded
	case c.Mark() != r.Used && c.Mark() != r.Issued:
		return ErrSpent
	}
	return nil
}

// Use is the record after a good credential was used. It is the newest from then on, also
// if the log is a copy from before it was issued.
func (r Record) Use(c Credential) Record {
	if c.Mark() == r.Used {
		return r
	}
	if c.Joined > r.Joined || c.Number > r.Issued.Number {
		r.Joined, r.Issued = c.Joined, c.Mark()
	}
	r.Used, r.Hash, r.Created, r.Readmits = c.Mark(), "", "", nil
	return r
}

// Readmit is the record after an operator has readmitted the agent that has shown a spent credential,
// as when its machine was restored from a snapshot.
func (r Record) Readmit() (Record, error) {
	if r.Revoked == nil || r.Revoked.Shown == nil {
		return r, ErrNoReuse
	}
	r.Readmits = r.Revoked.Shown
	return r, nil
}

// Readmitted reports whether an operator has readmitted the agent that has a credential.
func (r Record) Readmitted(c Credential) bool { return r.Readmits != nil && *r.Readmits == c.Mark() }

// Rejoin is the record after a readmitted credential was traded for one of a key. What followed the
// readmitted one is superseded, as by a join.
func (r Record) Rejoin(c Credential, keyDigest string, now time.Time) (Credential, Record) {
	if r.Revoked != nil || r.Issued.Key != keyDigest {
		r.Joined = max(r.Issued.Number+1, r.Used.Number+1, uint64(max(0, now.Unix())))
		r.Issued, r.Revoked = Mark{r.Joined, keyDigest}, nil
	}
	return r.credential(c.Location), r
}

// Renew is the record after the one that follows a good credential was issued for a key.
// It has used the credential. For the key of the last that was issued the same is issued
// again: the answer may have been lost.
func (r Record) Renew(c Credential, of string) (Credential, Record, error) {
	if _, err := r.Judge(c); err != nil {
		return Credential{}, r, err
	}
	return r.Use(c).credentialOf(c.Location, of)
}

// credentialOf is the newest credential if it is that of a key and not used, or else one
// more.
func (r Record) credentialOf(l key.Location, of string) (Credential, Record, error) {
	if r.Issued == r.Used || r.Issued.Key != of {
		r.Issued = Mark{r.Issued.Number + 1, of}
	}
	return r.credential(l), r, nil
}

// credential is the newest one.
func (r Record) credential(l key.Location) Credential {
	return Credential{Location: l, Shard: r.Shard, UID: r.Location, Number: r.Issued.Number, Joined: r.Joined, Key: r.Issued.Key}
}

// Revoke is the record after nothing is good any more, join tokens included. The first
// reason stays.
func (r Record) Revoke(why Revocation) Record {
	r.Join, r.Readmits = nil, nil
	if r.Revoked == nil {
		why.At = why.At.UTC().Truncate(time.Second)
		r.Revoked = &why
	}
	return r
}

// Moved are the numbers of the shards of which another credential is the newest that was
// used, by two records as the log keeps them.
func Moved(before, after []byte) (numbers []int) {
	var was, is Record
	// Of a record that can't be read nothing was used.
	_, _ = json.Unmarshal(before, &was), json.Unmarshal(after, &is)
	for number := 1; number <= key.MaxShards; number++ {
		if was.Of(number).Used != is.Of(number).Used {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// Enrolled says that an agent has shown what it was given.
func (r Record) Enrolled() bool {
	return slices.ContainsFunc(r.All(), func(part Record) bool { return part.Used.Number > 0 })
}

func same(secret, of string) bool {
	return subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(of)) == 1
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// String is how a revocation is told to whom it concerns.
func (r Revocation) String() string {
	return fmt.Sprintf("%s (%s)", r.Message, r.At.Format(time.RFC3339))
}
