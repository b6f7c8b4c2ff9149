/**
 * Pulls under way (docs/dev/contract.md#pull): each with its own clock, and of a workspace only so many at a time. One counts from
 * its request until the last byte of its response is with the client or the client has gone: a message may have 64 MiB,
 * which a client that does not read would have this process hold.
 *
 * The wait is cut into slices: delivery does not learn that a client has gone, and so would hand a message to nobody
 * for up to 30 s; between slices we look. A slice that ends early and empty means that delivery has ended all pulls
 * (shutdown), and so does the wait. A key that is revoked ends its waiting pulls at once; what delivery hands out after
 * that goes back.
 */
import { ApiError } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { PullResult, Pulls } from '../../delivery/delivery.ts'
import { freeNow } from './free-now.ts'

export const maxWaitMs = 30_000
export const defaultWaitMs = 5_000
const sliceMs = 2_000
/** Timers fire a little early or late; less than this short of its slice is not early. */
const toleranceMs = 100
const rememberedRevocations = 100

export interface PullWait {
  workspaceId: string
  /** Null: not by a key. */
  apiKeyId: string | null
  destinationId: string
  waitMs: number
  afterSeq: number | null
  isAborted(): boolean
}

/** The message of a pull; `close` is called when its response was sent, or never will be. */
export interface FoundPull {
  result: PullResult
  close(): void
}

interface OpenPull {
  readonly wait: PullWait
  /** The size of the message that it holds. */
  bytes: number
  isRevoked: boolean
  revoke(): void
}

interface WorkspacePulls {
  readonly pulls: Set<OpenPull>
  /** Messages that were read in vain because there was no room: their bytes, by request. */
  readonly refused: Map<string, number>
}

export class LongPoll {
  readonly #pulls: Pick<Pulls, 'pull' | 'abandoned'>
  readonly #now: () => number
  readonly #open = new Map<string, WorkspacePulls>()
  /**
   * The keys that were revoked last: a request may have been authenticated just before the revocation and begin to
   * wait just after it.
   */
  readonly #revoked: string[] = []

  /** `now`: a monotonic clock in ms. */
  constructor(pulls: Pick<Pulls, 'pull' | 'abandoned'>, now: () => number = () => performance.now()) {
    this.#pulls = pulls
    this.#now = now
  }

  /** `empty` when the time is over. Throws `pull_concurrency_exceeded`, and `unauthorized` once the key is revoked. */
  async find(wait: PullWait): Promise<FoundPull> {
    const { pull, revoked } = this.#begin(wait)
    const close = () => this.#end(pull)
    try {
      const finding = this.#inSlices(pull)
      finding.then(
        (late) => pull.isRevoked && this.#abandon(wait, late),
        () => {},
      )
      const result = await Promise.race([finding, revoked])
      if (result.kind === 'message') this.#hold(pull, result)
      return { result, close }
    } catch (error) {
      close()
      throw error
    }
  }

  /** Its waiting pulls are answered 401; a response that is being sent goes on. */
  revoke(apiKeyId: string): void {
    this.#revoked.push(apiKeyId)
    if (this.#revoked.length > rememberedRevocations) this.#revoked.shift()
    for (const { pulls } of this.#open.values())
      for (const pull of [...pulls]) if (pull.wait.apiKeyId === apiKeyId) pull.revoke()
  }

  #begin(wait: PullWait): { pull: OpenPull; revoked: Promise<never> } {
    if (wait.apiKeyId !== null && this.#revoked.includes(wait.apiKeyId)) throw new ApiError('unauthorized')
    const own = this.#open.get(wait.workspaceId) ?? { pulls: new Set(), refused: new Map() }
    if (own.pulls.size >= resourceLimits.pullsPerWorkspace) throw tooManyPulls()
    this.#requireRoomAgain(own, wait)
    this.#open.set(wait.workspaceId, own)
    let reject: (error: Error) => void = () => {}
    const revoked = new Promise<never>((_, fail) => {
      reject = fail
    })
    revoked.catch(() => {})
    const pull: OpenPull = {
      wait,
      bytes: 0,
      isRevoked: false,
      revoke: () => {
        pull.isRevoked = true
        reject(new ApiError('unauthorized'))
      },
    }
    own.pulls.add(pull)
    return { pull, revoked }
  }

  #end(pull: OpenPull): void {
    const { workspaceId } = pull.wait
    const own = this.#open.get(workspaceId)
    own?.pulls.delete(pull)
    if (own?.pulls.size === 0) this.#open.delete(workspaceId)
  }

  async #inSlices(pull: OpenPull): Promise<PullResult> {
    const { wait } = pull
    const { destinationId, afterSeq, waitMs } = wait
    const deadline = this.#now() + waitMs
    for (;;) {
      const begun = this.#now()
      const slice = Math.min(sliceMs, Math.max(0, Math.ceil(deadline - begun)))
      const result = await this.#pulls.pull(destinationId, { waitMs: slice, afterSeq })
      if (result.kind !== 'empty' || wait.isAborted() || pull.isRevoked) return result
      const isEarly = this.#now() - begun < slice - toleranceMs
      if (isEarly || this.#now() >= deadline) return result
    }
  }

  #hold(pull: OpenPull, message: Extract<PullResult, { kind: 'message' }>): void {
    const bytes = message.json.byteLength
    const own = this.#open.get(pull.wait.workspaceId)
    if (own !== undefined && !this.#hasRoom(own, bytes)) {
      this.#abandon(pull.wait, message)
      freeNow(message.json)
      remember(own.refused, pull.wait, bytes)
      throw tooManyUnread()
    }
    pull.bytes = bytes
  }

  /** A message that had no room is not read again before there is some: reading it costs the lanes of all. */
  #requireRoomAgain({ pulls, refused }: WorkspacePulls, wait: PullWait): void {
    const bytes = refused.get(askedFor(wait))
    if (bytes === undefined) return
    if (!this.#hasRoom({ pulls, refused }, bytes)) throw tooManyUnread()
    refused.delete(askedFor(wait))
  }

  /** A workspace that holds nothing always gets its message, as long as this process has room for it. */
  #hasRoom({ pulls }: WorkspacePulls, bytes: number): boolean {
    const ofWorkspace = held(pulls)
    const ofAll = held([...this.#open.values()].flatMap((own) => [...own.pulls]))
    const { pulledBytesPerWorkspace, pulledBytes } = resourceLimits
    const fitsOwn = ofWorkspace === 0 || ofWorkspace + bytes <= pulledBytesPerWorkspace
    return fitsOwn && (ofAll === 0 || ofAll + bytes <= pulledBytes)
  }

  #abandon({ destinationId }: PullWait, result: PullResult): void {
    // A failure ends the lane, which says so itself.
    if (result.kind !== 'message') return
    this.#pulls.abandoned({ destinationId, pullId: result.pullId }).catch(() => {})
  }
}

function held(pulls: Iterable<OpenPull>): number {
  let bytes = 0
  for (const pull of pulls) bytes += pull.bytes
  return bytes
}

function askedFor({ destinationId, afterSeq }: PullWait): string {
  return `${destinationId} ${afterSeq}`
}

/** No more of them than pulls at a time: the oldest goes. */
function remember(refused: Map<string, number>, wait: PullWait, bytes: number): void {
  refused.set(askedFor(wait), bytes)
  if (refused.size <= resourceLimits.pullsPerWorkspace) return
  for (const oldest of refused.keys()) return void refused.delete(oldest)
}

function tooManyUnread(): ApiError {
  return tooManyPulls('Unread responses of pulls use too much memory: read them first.')
}

function tooManyPulls(message?: string): ApiError {
  return new ApiError('pull_concurrency_exceeded', {
    headers: { 'Retry-After': '1' },
    ...(message === undefined ? {} : { message }),
  })
}
