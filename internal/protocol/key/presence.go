package key

import "strings"

const (
	// Hubs holds one key for each hub that lives, under its lease: h/ID.
	Hubs Class = "h"
	// Sessions holds who has the session of a location's agent, under the lease of that hub:
	// s/LOCATION/SHARD.
	Sessions Class = "s"
	// Sayings holds what agents say of themselves, whichever hub has heard it: a/LOCATION/SHARD.
	Sayings Class = "a"
	// Drops holds, for each location, when the hub has last removed reports of it that nobody
	// wants any more: d/LOCATION.
	Drops Class = "d"
	// Elections holds who writes what a concern is about, under its lease: l/CONCERN.
	Elections Class = "l"
)

// Leased says that the keys of a class go with the lease of the hub that has written them:
// etcd deletes them by itself, so that they are gone is no proof of anybody's writes.
func (c Class) Leased() bool { return c == Hubs || c == Sessions || c == Elections }

// Session names the session of the agent of one shard of a location.
type Session struct {
	Location Location
	Shard    Shard
}

// WholeOf is the session of a location that is not divided.
func WholeOf(l Location) Session { return Session{Location: l} }

// Key is the key of who has the session.
func (s Session) Key() string { return s.below(Sessions) }

// Said is the key of what the agent of the session says of itself.
func (s Session) Said() string { return s.below(Sayings) }

func (s Session) below(c Class) string {
	return c.Prefix() + string(s.Location) + "/" + s.Shard.String()
}

// SessionOf is the session that a key of Sessions or Sayings is about; false for another key.
func SessionOf(k string) (s Session, ok bool) {
	class, rest, _ := strings.Cut(k, "/")
	if c := Class(class); c != Sessions && c != Sayings {
		return Session{}, false
	}
	l, text, _ := strings.Cut(rest, "/")
	shard, err := ParseShard(text)
	return Session{Location(l), shard}, err == nil
}

// LocationSessions is the prefix of the sessions of a location.
func LocationSessions(l Location) string { return Sessions.Prefix() + string(l) + "/" }

// LocationSayings is the prefix of what the agents of a location say of themselves.
func LocationSayings(l Location) string { return Sayings.Prefix() + string(l) + "/" }

// Dropped is the key of when the hub has last removed reports of a location.
func Dropped(l Location) string { return Drops.Prefix() + string(l) }

// Hub is the key of a hub that lives.
func Hub(id string) string { return Hubs.Prefix() + id }

// Election is the key of who writes what a concern is about.
func Election(concern string) string { return Elections.Prefix() + concern }
