package cli

const lockLong = `lock waits until it holds the lock NAME, runs COMMAND, and gives the lock back when
COMMAND has ended. Everybody who uses the same service and the same NAME meets at
the same lock: first come, first served.

With --shared it takes a reader's share: any number of readers run together, and
none beside a writer. With --permits and --limit it takes permits of a semaphore,
with --elect it leads an election, with --barrier it starts together with others;
names of these kinds do not meet.

COMMAND is run as it is, without a shell; for one, run: sh -c '…'. It gets, in
its environment,

  COORD_NAME    NAME
  COORD_KIND    lock, semaphore, election or barrier
  COORD_TOKEN   the fencing token: it grows with each conflicting grant (for a
                barrier: the round's number). A store that refuses a token lower
                than the last one is safe from a late writer.
  COORD_URL     the service, for a coord below it; left out if it has a
                password, unless --pass-url

Loss
  A service that has not heard of coord for a while gives the lock to the next.
  coord knows when, and before that sends COMMAND's process group TERM, and KILL
  after --grace. It then ends with --lost-exit-code, whatever COMMAND's status.
  With --on-loss=ignore COMMAND goes on, and its status counts.

Signals
  INT, TERM, HUP, QUIT, TSTP, CONT and WINCH that coord gets are passed on to
  COMMAND's process group, USR1 and USR2 to COMMAND alone, each exactly once.
  COMMAND has a process group of its own, and gets the terminal: at once if coord
  is the only process of a shell's job, or with --foreground, and else when it
  asks for it. While coord waits, INT, TERM, HUP and QUIT end the wait: nothing
  stays held, and COMMAND is not started.
  If coord itself is killed, COMMAND and its process group are killed, too
  (docs/cli.md says what holds on which platform).

Background processes
  When COMMAND has ended the lock is given back, also if processes that it left
  in the background still run or have its output open.

Exit status
  COMMAND's own; 128+n if signal n ended it, or ended the wait. Otherwise:
  64   it was used wrongly: flags, name, URL, or parameters that differ from others'
  69   the service is not available, or refuses
  71   the system has no room for another process
  75   not obtained, by --try or within --timeout (--conflict-exit-code)
  79   lost while COMMAND ran (--lost-exit-code)
  126  COMMAND cannot be run
  127  COMMAND was not found`

const lockExample = `  # one report at a time; a second one waits
  coord lock nightly-report -- ./report.sh --all

  # from cron: skip this turn if the last one still runs, and call that a success
  coord lock --try -E 0 sync -- rsync -a src/ backup:dst/

  # wait for ten seconds at most
  coord lock -w 10 deploy -- ./deploy.sh || echo "status $?"

  # readers and a writer
  coord lock --shared catalogue -- ./search.sh
  coord lock catalogue -- ./rebuild.sh

  # three downloads at a time
  coord lock --permits 1 --limit 3 downloads -- curl -O https://example.com/big

  # between hosts, with the password in a file that only you can read
  coord lock --url-file ~/.coord-url deploy -- ./deploy.sh

  # the fencing token
  coord lock demo -- sh -c 'echo "I hold $COORD_NAME with token $COORD_TOKEN"'`

const electLong = `elect waits until it leads the election NAME, runs COMMAND, and resigns when COMMAND
has ended. Exactly one candidate leads at a time. What --data gives can be seen by
everybody while it leads, an address for example.

Loss, signals, environment and exit status are those of "coord lock".

Without a command, --leader prints what the leader publishes, or else its owner,
and ends with 1 if nobody leads; --watch goes on and prints each change, with "-"
for nobody.`

const electExample = `  # a service of which one instance works and the others stand by
  coord elect --data "$(hostname):8080" scheduler -- ./scheduler

  # who leads
  coord elect --leader scheduler

  # follow it
  coord elect --watch --json scheduler`

const barrierLong = `barrier waits until --parties processes have come to the barrier NAME, and then lets
them through together, round after round. All have to give the same number.

With a COMMAND they run it at the same time, and then wait until every party's has
ended or its process is gone. Loss, signals, environment and exit status are those
of "coord lock"; COORD_TOKEN is the round's number, the same for all of a round.

Exit status
  0 when all have come; 75 when they did not within --timeout (--conflict-exit-code);
  64 when others wait with another number; 128+n when signal n ended the wait. With
  a COMMAND as "coord lock".`

const barrierExample = `  # three load generators start at the same moment
  coord barrier --parties 3 start && ./generate-load

  # and wait for each other at the end
  coord barrier --parties 3 load -- ./generate-load`

const statusLong = `status shows who holds NAME and who waits for it, in order of arrival: how, who
they say they are, for how long by their own clocks, and with which token. Without
--kind it shows all kinds that are in use under NAME. Without NAME it shows
everything that is in use, on services that can tell.

With --watch it goes on and prints each change, of the lock NAME or of the --kind;
changes that follow each other closely may be seen as one.

JSON
  {"kind","name","entries":[{"state","mode","token","owner","since","weight","limit",
  "data","id"}]}, where state is "holds" or "waits" and mode "exclusive", "shared",
  "permit" or "presence". One object a line.

Exit status
  0; with --quiet 1 when nobody holds it or waits; 64 used wrongly; 69 no answer.`

const statusExample = `  coord status nightly-report
  coord status --kind semaphore downloads
  coord status --watch --json nightly-report | jq '.entries | length'
  if coord status -q deploy; then echo "a deployment is going on"; fi`

const serveLong = `serve stays until a signal ends it, and serves a socket:// URL, by default the one
that coord uses by default.

It is never needed: the first client of a socket serves the others, and when it
goes another one takes over with all holds and places in line. With a server that
stays there is no such change, and nothing starts anew when nobody is there for a
while. Any number may run on one socket; they take over from each other.`

const serveExample = `  coord serve
  coord serve 'socket:///run/app/coord.sock?mode=0660'`

const doctorLong = `doctor checks that the service that a URL names is fit for use: that the URL is
right, the service answers, a lock and a register can be written and removed under
a scratch name, and what the service says about itself (for etcd: members,
versions, alarms; for paths: the file system). It measures how long a lock takes.

Each line begins with ✓ (good), ! (good to know) or ✗ (wrong), and says what to do.
Clocks are not checked, since no backend compares those of two hosts.

Exit status
  0 when nothing is wrong, 1 otherwise, 64 used wrongly.`

const doctorExample = `  coord doctor
  coord doctor etcd://etcd1:2379,etcd2:2379/jobs
  COORD_URL="$(cat secret-url)" coord doctor --json`

const urlsLong = `urls lists every kind of service that this coord can use: the form of its URL, an
example, and its parameters with their defaults.

User and password are decoded: "/", "?", "#", "@", ":" and "%" in them are written
as %2F, %3F, %23, %40, %3A and %25. Nothing ever prints them.`
