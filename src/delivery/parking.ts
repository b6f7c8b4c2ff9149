/**
 * Parks the records that a destination rejects for their content (`fault: 'records'`), for a lane with
 * `on_permanent_error: park`.
 *
 *   rejected records, named by the driver ──park─▶ parked, durable ──▶ the driver stores the others ──▶ cursor
 *   a single message, no records named by the driver ─▶ parked, and the cursor past it, in one save
 *   no room (`parked.max_bytes`) ────────────────────▶ `parked_full`: the lane is blocked there
 *
 * A fault of the destination (a wrong password, a missing table) parks nothing. `Parking`, at the end, is the lane's part
 * of the room for parked records.
 */
import { isDeepStrictEqual } from 'node:util'
import { DeliveryError, type RejectedRecord } from '../destinations/driver.ts'
import type { MarkedMessage, StoredMessage } from '../log/buffer.ts'
import { bodyFrom } from '../log/erased-body.ts'
import { records } from '../log/record-text.ts'
import type { LaneOwner } from '../metadata/lane-ownership.ts'
import type { LaneSpec, LaneState, RangeStore } from '../metadata/lane-state.ts'
import {
  type AttemptedRange,
  type NewParked,
  nothingParked,
  type ParkedCause,
  type ParkedCounts,
  type ParkedPosition,
  type ParkedStore,
  parkedRowBytes,
} from '../metadata/parked-store-port.ts'

/** The part of a lane's state that parking uses: see DurableState. */
export interface ParkingLane {
  readonly row: LaneState
  readonly log: { parked(parked: readonly NewParked[]): void }
  parked(message: MarkedMessage, parked: NewParked): Promise<void>
}

export class RejectedRecordParking {
  readonly #parking: Parking
  readonly #state: ParkingLane
  /** Records parked since the current range was cut, by message. They are not delivered. */
  readonly #parked = new Map<number, Map<number | null, number>>()

  /** `inherited`: positions that an earlier process has parked, of messages that the cursor has not moved past. */
  constructor(parking: Parking, state: ParkingLane, inherited: readonly ParkedPosition[]) {
    this.#parking = parking
    this.#state = state
    // A destination that already has the other records of a batch (`exactly_once`) is not sent the batch again and
    // rejects nothing.
    for (const position of inherited) this.#note(position)
  }

  /** Returns how many records of these messages are parked instead of stored, by message, and forgets them. */
  takeParked(messages: readonly StoredMessage[]): Map<number, number> {
    const taken = new Map<number, number>()
    if (this.#parked.size === 0) return taken
    for (const { seq } of messages) {
      const records = this.#parked.get(seq)
      if (records === undefined) continue
      taken.set(
        seq,
        [...records.values()].reduce((sum, count) => sum + count, 0),
      )
      this.#parked.delete(seq)
    }
    return taken
  }

  /**
   * A parked record that is attempted again can be stored or filtered now, and is counted as such. It stays parked,
   * because the destination can have the other records of that attempt and then is not sent this one. The stored part of
   * a half-stored message is not attempted again.
   */
  transformChanged({ batchFirstSeq, recordOffset }: Pick<LaneState, 'batchFirstSeq' | 'recordOffset'>): void {
    for (const [seq, places] of this.#parked) {
      for (const place of places.keys())
        if (seq !== batchFirstSeq || place === null || place >= recordOffset) places.delete(place)
    }
  }

  /** See `AttemptProgress.park`: durable when it resolves. Rejects with `parked_full` or the store's error. */
  async park(
    rejected: readonly RejectedRecord[],
    messages: readonly StoredMessage[],
    row: LaneState,
    requireCurrent: () => void,
  ): Promise<void> {
    const parked = rejectedRecords(rejected, messages, row)
    const hasRoom = await this.#parking.withRoom(parked, async () => {
      requireCurrent()
      await this.#parking.store.park(this.#parking.owner, parked)
    })
    requireCurrent()
    if (!hasRoom) throw parkedFull(rejected[0]!)
    for (const position of parked) this.#note(position)
    await this.#parking.refresh()
    this.#state.log.parked(parked)
  }

  #note({ seq, recordIndex, recordCount }: ParkedPosition): void {
    const ofMessage = this.#parked.get(seq) ?? new Map<number | null, number>()
    this.#parked.set(seq, ofMessage.set(recordIndex, recordCount))
  }

  /**
   * Parks a message that failed in a batch of its own, and moves the cursor past it. `full`: there is no room. Null: it
   * must not be parked.
   */
  async parkMessage(
    error: DeliveryError,
    messages: readonly MarkedMessage[],
    spec: LaneSpec,
  ): Promise<'parked' | 'full' | null> {
    const [message] = messages
    if (message === undefined || messages.length > 1) return null
    if (spec.onPermanentError !== 'park' || error.fault !== 'records') return null
    const { row } = this.#state
    const parked = parkedMessage(message, row, row.attempts + 1, causeOf(error))
    const isParked = await this.#parking.withRoom([parked], () => this.#state.parked(message, parked))
    if (!isParked) return 'full'
    this.#parked.delete(message.seq)
    this.#state.log.parked([parked])
    return 'parked'
  }
}

/** The error of a lane that has no room to park: the destination's own message would not explain why the lane stopped. */
export function asParkedFull(error: DeliveryError): DeliveryError {
  if (error.code === parkedFullCode) return error
  const message = `${fullText} The error of the destination: ${error.message}`
  return new DeliveryError(error.class, parkedFullCode, message, error.known)
}

const parkedFullCode = 'parked_full'
const fullText =
  'There is no room to park the rejected records: replay or discard parked records, or raise parked.max_bytes.'

function parkedFull(rejected: RejectedRecord): DeliveryError {
  const { seq, message } = rejected
  return new DeliveryError(
    'permanent',
    parkedFullCode,
    `${fullText} The error of the destination: ${message}`,
    {
      fault: 'records',
      failedSeq: seq,
      rejected,
    },
  )
}

function causeOf({ code, message, rejected }: DeliveryError): ParkedCause {
  const { column = null, value = null } = rejected ?? {}
  return { reason: 'permanent_error', code, message, column, value }
}

/** Walks once over each message. Records that a driver names twice, or that do not exist, are ignored. */
function rejectedRecords(
  rejected: readonly RejectedRecord[],
  messages: readonly StoredMessage[],
  row: LaneState,
): NewParked[] {
  const attempts = row.attempts + 1
  const { generation } = row
  const found: NewParked[] = []
  for (const message of messages) {
    const ofMessage = rejected.filter(({ seq }) => seq === message.seq)
    if (ofMessage.length === 0) continue
    const whole = ofMessage.find(({ recordIndex }) => recordIndex === null)
    if (whole !== undefined) {
      const offset = { generation, recordOffset: message === messages[0] ? row.recordOffset : 0 }
      found.push(parkedMessage(message, offset, attempts, rejectedCause(whole)))
      continue
    }
    const byIndex = new Map(ofMessage.map((one) => [one.recordIndex, one]))
    const { msgId, seq, receivedMs } = message
    let index = 0
    for (const body of records(message.body)) {
      const one = byIndex.get(index)
      if (one !== undefined) {
        const place = { msgId, seq, receivedMs, recordIndex: index, firstIndex: index }
        found.push({ ...rejectedCause(one), ...place, recordCount: 1, body, attempts, generation })
      }
      index += 1
    }
  }
  return found
}

function rejectedCause(rejected: RejectedRecord): ParkedCause {
  const { code, message, column, value } = rejected
  const place = { column: column ?? null, value: value ?? null }
  return { reason: 'permanent_error', code, message, ...place }
}

/**
 * The parked records of one lane, and the limit of all parked records (`parked.max_bytes`). Room is reserved before
 * records are stored, so that concurrent lanes do not exceed the limit together.
 */
interface LaneIds {
  destinationId: string
  workspaceId: string
}

/** The limit, shared by all lanes of this process. */
export class ParkedSpace {
  readonly #store: Pick<ParkedStore, 'taken'>
  readonly #maxBytes: number
  /** By workspace. */
  readonly #reserved = new Map<string, number>()
  #releases = 0

  constructor(store: Pick<ParkedStore, 'taken'>, maxBytes: number) {
    this.#store = store
    this.#maxBytes = maxBytes
  }

  /** Reserves room. Null when there is none; otherwise call the result when the records are stored or will not be. */
  async reserve(workspaceId: string, bytes: number): Promise<(() => void) | null> {
    for (;;) {
      const releases = this.#releases
      const taken = await this.#store.taken(workspaceId)
      // Records whose room was released meanwhile can be stored but missing in this sum: read again.
      if (releases !== this.#releases) continue
      const ofOthers = [...this.#reserved.values()].reduce((sum, each) => sum + each, 0)
      const own = this.#reserved.get(workspaceId) ?? 0
      const isFull = taken.bytes + ofOthers + bytes > this.#maxBytes
      if (isFull || taken.ofWorkspace + own + bytes > this.#maxOf(taken.workspaces)) return null
      this.#reserved.set(workspaceId, own + bytes)
      return () => this.#release(workspaceId, bytes)
    }
  }

  /** With several workspaces, one of them can use at most half of the room. */
  #maxOf(workspaces: number): number {
    return workspaces > 1 ? Math.floor(this.#maxBytes / 2) : this.#maxBytes
  }

  #release(workspaceId: string, bytes: number): void {
    this.#releases += 1
    const left = (this.#reserved.get(workspaceId) ?? 0) - bytes
    if (left > 0) this.#reserved.set(workspaceId, left)
    else this.#reserved.delete(workspaceId)
  }
}

export class Parking {
  readonly store: ParkedStore & RangeStore
  /** The lane's owner, which its writes carry. */
  readonly owner: LaneOwner
  readonly #space: ParkedSpace
  readonly #workspaceId: string
  #counts: ParkedCounts = nothingParked
  #inherited: readonly ParkedPosition[] = []

  static async open(
    spec: LaneIds,
    { epoch, attempted }: { epoch: number; attempted: AttemptedRange },
    store: ParkedStore & RangeStore,
    space: ParkedSpace,
  ): Promise<Parking> {
    const { destinationId, workspaceId } = spec
    const parking = new Parking({ destinationId, epoch }, workspaceId, store, space)
    await parking.refresh()
    await parking.#findInherited(attempted)
    return parking
  }

  private constructor(
    owner: LaneOwner,
    workspaceId: string,
    store: ParkedStore & RangeStore,
    space: ParkedSpace,
  ) {
    this.store = store
    this.owner = owner
    this.#space = space
    this.#workspaceId = workspaceId
  }

  /** A new object after each change. */
  get counts(): ParkedCounts {
    return this.#counts
  }

  /** Positions parked by an earlier process, of messages that the cursor has not moved past. */
  get inherited(): readonly ParkedPosition[] {
    return this.#inherited
  }

  async #findInherited(range: AttemptedRange): Promise<void> {
    if (this.#counts.rows === 0 || range.throughSeq <= range.afterSeq) return
    this.#inherited = await this.store.parkedIn(this.owner.destinationId, range)
  }

  async refresh(): Promise<void> {
    const counts = await this.store.counts(this.owner.destinationId)
    if (!isDeepStrictEqual(counts, this.#counts)) this.#counts = counts
  }

  /** Runs `store` with reserved room. Returns false when there is none. */
  async withRoom(parked: readonly NewParked[], store: () => Promise<void>): Promise<boolean> {
    const bytes = parked.reduce((sum, { body }) => sum + body.length + parkedRowBytes, 0)
    const release = await this.#space.reserve(this.#workspaceId, bytes)
    if (release === null) return false
    try {
      await store()
    } finally {
      release()
    }
    return true
  }
}

/** A parked message, or its part that is not stored. `attempts` is the number of attempts. */
export function parkedMessage(
  message: StoredMessage,
  { recordOffset, generation }: { recordOffset: number; generation: number },
  attempts: number,
  cause: ParkedCause,
): NewParked {
  const { msgId, seq, receivedMs, recordCount, body } = message
  const isWhole = recordOffset === 0
  return {
    ...cause,
    msgId,
    seq,
    receivedMs,
    attempts,
    generation,
    recordIndex: null,
    firstIndex: recordOffset,
    recordCount: recordCount - recordOffset,
    body: isWhole ? body : bodyFrom(body, recordOffset),
  }
}

/** The cause of parking by an operator's skip: the destination's last error. */
export function skipCause(lastError: Omit<ParkedCause, 'reason'> | null): ParkedCause {
  const { code = 'skipped', message = 'Skipped.', column = null, value = null } = lastError ?? {}
  return { reason: 'skipped', code, message, column, value }
}
