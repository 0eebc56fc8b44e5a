/* The switches of the checks: -DWEAK_E3=1 and so on. ORDER(WEAK_E3, first, second) performs two operations that the
 * memory order of E3 keeps in sequence; if that order is weakened, the second operation comes first. */
#define ORDER_0(first, second) first; second
#define ORDER_1(first, second) second; first
#define ORDER_(weak, first, second) ORDER_##weak(first, second)
#define ORDER(weak, first, second) ORDER_(weak, first, second)

/* Which processes run: a reader (rows.pml), or learners with trees (learner.pml); and which additional checks apply. */
#ifndef READER
#define READER 0
#endif
#ifndef LEARNERS
#define LEARNERS 0
#endif
#ifndef HISTORY
#define HISTORY 0
#endif
#ifndef LARGEST
#define LARGEST 0
#endif
#ifndef LINKS /* of sequences (sequences.pml) */
#define LINKS 0
#endif
#ifndef KILLS
#define KILLS 0
#endif

/* Memory orders that can be weakened. */
#ifndef WEAK_E2
#define WEAK_E2 0
#endif
#ifndef WEAK_E3
#define WEAK_E3 0
#endif
#ifndef WEAK_E4
#define WEAK_E4 0
#endif
#ifndef WEAK_E5
#define WEAK_E5 0
#endif
#ifndef WEAK_E6
#define WEAK_E6 0
#endif
#ifndef WEAK_E7
#define WEAK_E7 0
#endif
#ifndef WEAK_E8
#define WEAK_E8 0
#endif
#ifndef WEAK_B1
#define WEAK_B1 0
#endif
#ifndef WEAK_F1
#define WEAK_F1 0
#endif
#ifndef WEAK_F5
#define WEAK_F5 0
#endif
#ifndef WEAK_E4_LATE
#define WEAK_E4_LATE 0
#endif
#ifndef WEAK_E6_LATE
#define WEAK_E6_LATE 0
#endif
#ifndef WEAK_L1
#define WEAK_L1 0
#endif
#ifndef WEAK_L2
#define WEAK_L2 0
#endif
#ifndef WEAK_T1
#define WEAK_T1 0
#endif
#ifndef WEAK_T2
#define WEAK_T2 0
#endif
#ifndef WEAK_T3
#define WEAK_T3 0
#endif
#ifndef WEAK_T4
#define WEAK_T4 0
#endif
#ifndef WEAK_T5
#define WEAK_T5 0
#endif
#ifndef WEAK_U1
#define WEAK_U1 0
#endif
#ifndef WEAK_U3
#define WEAK_U3 0
#endif
#ifndef WEAK_U2
#define WEAK_U2 0
#endif

/* Steps that are omitted or changed. ONLY_ROWS allows two writers in one slot, to check what a reader then sees. */
#ifndef FETCH_ADD
#define FETCH_ADD 0
#endif
#ifndef ONLY_ROWS
#define ONLY_ROWS 0
#endif
#ifndef NO_REGISTRATION_LOCK
#define NO_REGISTRATION_LOCK 0
#endif
#ifndef NO_B1
#define NO_B1 0
#endif
#ifndef PLAIN_FREE
#define PLAIN_FREE 0
#endif
#ifndef NO_L3
#define NO_L3 0
#endif
#ifndef NO_NUMBER
#define NO_NUMBER 0
#endif
#ifndef KEEPS_CHAIN
#define KEEPS_CHAIN 0
#endif
#ifndef CHAIN_IN_REGISTRATION
#define CHAIN_IN_REGISTRATION 0
#endif
#ifndef T2_CLOSED_ONLY
#define T2_CLOSED_ONLY 0
#endif
#ifndef TWO_LOADS
#define TWO_LOADS 0
#endif
#ifndef FORGETS
#define FORGETS 0
#endif
#ifndef T4_EXACT
#define T4_EXACT 0
#endif
#ifndef NO_LOW_BITS
#define NO_LOW_BITS 0
#endif
#ifndef NO_AGAIN
#define NO_AGAIN 0
#endif
#ifndef NO_CAS
#define NO_CAS 0
#endif
#ifndef NO_REJOIN
#define NO_REJOIN 0
#endif
#ifndef NO_WAITING
#define NO_WAITING 0
#endif
#ifndef FROM_THE_END
#define FROM_THE_END 0
#endif
#ifndef PLAIN_STORES
#define PLAIN_STORES 0
#endif
#ifndef NO_LOOK
#define NO_LOOK 0
#endif
#ifndef B0_CLAIMED
#define B0_CLAIMED 0
#endif
#ifndef NO_APPENDED
#define NO_APPENDED 0
#endif
#ifndef NO_LATE
#define NO_LATE 0
#endif
#ifndef NO_UNDO
#define NO_UNDO 0
#endif
#ifndef UNDO_OPEN
#define UNDO_OPEN 0
#endif
#ifndef NO_L4
#define NO_L4 0
#endif
#ifndef L4_NOT_CLEARED
#define L4_NOT_CLEARED 0
#endif
#ifndef L4_LAST
#define L4_LAST 0
#endif
#ifndef EXPIRED_EARLY
#define EXPIRED_EARLY 0
#endif
#ifndef F2_EARLY
#define F2_EARLY 0
#endif
#ifndef F2_LATE
#define F2_LATE 0
#endif
#ifndef NO_BUMP
#define NO_BUMP 0
#endif
