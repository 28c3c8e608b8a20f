package conformance

// seenBy says which checks see a lie, by subject. "Exclusive" is all primitives
// that one holder has at a time. A name with a "?" may see it, by chance or by
// the order in which goroutines run; the others have to.
var seenBy = map[string]string{
	"GrantsTwice": `
		Acquire: Modes Order StrangersOfOneClient StrangersOfOneProcess CancelLeavesNothing CancelWins CancelRace? Deadline ContextBoundsWaitOnly Lifecycle ReleaseOnlyItself KindsDoNotMeet Concurrent?
		NoWait: Busy DoesNotJump OneOfMany?
		Observe: Wakes Order
		Gone: CancelledWaiter
		Register: AliveWaiters
		Withdraw: Waiter
		Downgrade: InPlace NoWriterBetween Again
		Close: NothingLeft ReleasesLeases EndsWaits OnlyItself NotAdmittedInPassing
		All: AllOrNone
		RWLock: ReadersTogether WriterAlone WaitingWriterFirst CancelledWriter CancelledReader Try WriterReaderWriter WriterNotStarved ReaderNotStarved AdjacentReaders SameAsLocker RLocker Downgrade DowngradeOther LongExample LatchRecipe CountdownRecipe
		Names: Accepted
		History: Lock? Election?
		Lock,RWLock.Lock,Election: Excludes NotReentrant Order CancelLeavesNothing CancelMakesRoom CancelWins Deadline ContextBoundsWaitOnly TryBusy TryDoesNotJump ReleaseOfTheGrant ReleaseAfterClose TokensGrow CloseEndsHolds CloseEndsWaits With Errors
		Election: CloseResigns
		Lock,RWLock.Lock,Election: Hammer?
		RWLock: Hammer?
	`,
	"LeavesAnEntryOnCancel": `
		Acquire: CancelLeavesNothing CancelWins Deadline CancelRace?
		Gone: CancelledWaiter
		Register: AliveWaiters
		All: AllOrNone
		RWLock: CancelledWriter CancelledReader
		Semaphore: CancelledBig
		History: Lock? Election? Semaphore?
		Exclusive: CancelLeavesNothing CancelMakesRoom CancelWins Deadline
	`,
	"CancelLoses": `
		Acquire: CancelWins
		Exclusive: CancelWins
	`,
	"DeafObserve": `
		Observe: Empty Wakes WakesMany OldVersion NeverGoesBack?
		Group: Watch
		Election: Watch
	`,
	"DeafLoad": `
		Register: LoadWakes LoadWaits NeverGoesBack?
		Barrier: OthersRounds? AllTogether SlowMember? Wait SpuriousWake TimeoutThenLate SecondRound TooMany? LeaveAgain? LeaveContext? Mismatch CloseLeaves? NothingLeft? Large?
		Rounds: AtSpeed? AtOnce? ManyCancel? MoreThanParties?
		Latch: Opens Countdown CountsExactly? Reset Context Mismatch Close Remove
	`,
	"StaleLoad": `
		Acquire: KindsDoNotMeet
		Observe: LineAndRegister
		Register: StoreAndLoad Prev Alive AliveWaiters AliveMany CompareAndSet? NeverGoesBack? NoEntry
		Withdraw: Current OrCounted?
		Latch: Reset Remove
		History: Register?
		Barrier: OthersRounds?
	`,
	"SharesData": `
		Observe: CallersOwn
	`,
	"GoneReturnsEarly": `
		Gone: Waits Many
		Barrier: SecondRound
		Rounds: ManyCancel? MoreThanParties? AtSpeed? AtOnce?
	`,
	"DeafGone": `
		Gone: ThenObserve? Waits CancelledWaiter Many ThenObserve?
		Barrier: OthersRounds? Wait? AllTogether? SlowMember SpuriousWake? TimeoutThenLate? SecondRound TooMany? LeaveAgain LeaveContext Mismatch? CloseLeaves NothingLeft? Large?
		Rounds: AtSpeed? AtOnce? ManyCancel? MoreThanParties?
	`,
	"ConstantToken": `
		Acquire: Entry Tokens
		RWLock: Tokens
		Semaphore: Limit
		Group: Members
		Barrier: Mismatch
		Names: Accepted
		History: Lock? Election?
		Exclusive: CancelLeavesNothing TokensGrow TokensGrowOverRestarts
		Election: Leader Watch
	`,
	"Reentrant": `
		Acquire: StrangersOfOneClient CancelRace? Deadline ContextBoundsWaitOnly Concurrent?
		NoWait: Busy OneOfMany?
		Observe: Wakes
		Gone: CancelledWaiter
		Downgrade: Again
		Close: NothingLeft OnlyItself NotAdmittedInPassing
		RWLock: CancelledReader Try ReaderNotStarved LongExample
		Lock,RWLock.Lock,Election: NotReentrant Order CancelMakesRoom Deadline ContextBoundsWaitOnly TryBusy ReleaseAfterClose CloseEndsWaits Errors
		Lock,RWLock.Lock,Election: Hammer?
	`,
	"TryWaits": `
		Acquire: ContextBoundsWaitOnly KindsDoNotMeet
		NoWait: Busy DoesNotJump PermitsDoNotJump OneOfMany?
		Downgrade: NoWriterBetween OtherModes
		All: AllOrNone
		RWLock: WaitingWriterFirst Try SameAsLocker RLocker DowngradeOther
		Semaphore: Try
		Names: Accepted
		Exclusive: NotReentrant ContextBoundsWaitOnly TryBusy TryDoesNotJump ReleaseAfterClose With Errors
	`,
	"TryJumps": `
		NoWait: DoesNotJump
		RWLock: WaitingWriterFirst
		History: Lock?
	`,
	"TryLeavesAnEntry": `
		Acquire: KindsDoNotMeet Concurrent?
		NoWait: Busy DoesNotJump PermitsDoNotJump OneOfMany?
		Downgrade: NoWriterBetween
		All: AllOrNone
		RWLock: Try SameAsLocker RLocker
		Semaphore: Try
		Names: Accepted
		History: Lock? Election? Semaphore?
		Exclusive: TryBusy TryDoesNotJump With
	`,
	"LastFirst": `
		History: Election?
		Election: NotReentrant Order CancelMakesRoom ReleaseOfTheGrant CloseEndsHolds
	`,
	"WeightsIgnored": `
		Acquire: Permits
		NoWait: PermitsDoNotJump
		Semaphore: Weights BigNotStarved CancelledBig ReleaseWakesSeveral Try
		History: Semaphore?
	`,
	"LimitsIgnored": `
		Acquire: Mismatch
		Semaphore: Mismatch
	`,
	"StoreIgnoresAlive": `
		Register: Alive AliveWaiters AliveMany
		Withdraw: OrCounted?
		Rounds: ManyCancel?
	`,
	"StoreIgnoresPrev": `
		Register: Absent? Prev? Alive? CompareAndSet? LoadWaits?
		History: Register?
		Rounds: MoreThanParties? ManyCancel? AtSpeed? AtOnce?
		Barrier: Large? TooMany? NothingLeft?
		Latch: CountsExactly?
	`,
	"WithdrawIgnoresVersion": `
		Withdraw: Changed OrCounted? Waiter
	`,
	"DowngradeReleases": `
		Downgrade: InPlace NoWriterBetween Again
		RWLock: Downgrade
		History: Lock?
	`,
	"ReleasesByName": `
		Barrier: LeaveContext? LeaveAgain?
		Acquire: Lifecycle ReleaseOnlyItself ReleaseDeadContext
		Withdraw: Twice
		Close: LeasesEnd
		Group: Members
		Exclusive: ReleaseOfTheGrant ReleaseAfterClose ReleaseTogether?
	`,
	"ReleaseTwiceFails": `
		Acquire: Lifecycle ReleaseOnlyItself ReleaseDeadContext
		Withdraw: Twice
		Close: LeasesEnd
		Group: Members
		Barrier: LeaveAgain LeaveContext CloseLeaves
		Exclusive: ReleaseAgain ReleaseOfTheGrant ReleaseTogether? ReleaseAfterClose With
	`,
	"CloseLeavesHolds": `
		Close: NothingLeft ReleasesLeases EndsWaits ThenCalls OnlyItself LeasesEnd NotAdmittedInPassing
		Group: WatchEnds CloseLeaves
		Barrier: CloseLeaves
		Latch: Close
		Exclusive: ReleaseAfterClose TokensGrow TokensGrowOverRestarts CloseEndsHolds
		Election: WatchEnds CloseResigns
	`,
	"ClosedWaitIsAGrant": `
		Close: EndsWaits NotAdmittedInPassing
		RWLock: CancelledWriter
		Exclusive: CloseEndsWaits
	`,
	"SilentLoss": `
		Session: ToldBeforeNext LostThenLock LossEndsWith LostInside
	`,
	"LateDone": `
		Session: ToldBeforeNext
	`,
	"LosesAtABlip": `
		Session: ToldBeforeNext Blip Downgrade
	`,
	"KeepsTheCrashed": `
		Session: CrashedHolder CrashedReader CrashedMember CrashedParty CrashedInside
	`,
	"DeafToDeadlines": `
		Session: Deadline Downgrade
	`,
}
