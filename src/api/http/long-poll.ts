/**
 * Pulls in progress (docs/dev/contract.md#pull): each has its own deadline, and each workspace a limited number. A
 * pull counts from its request until the client has received the last byte of the response or has disconnected: a
 * message can have 64 MiB, which this process must hold for a client that does not read.
 *
 * The wait is divided into slices. Delivery does not learn that a client has disconnected, and could hand it a
 * message up to 30 s later; the connection is checked between slices. A slice that ends early and empty means that
 * delivery has ended all pulls (shutdown), so the wait ends as well. Revoking a key ends its waiting pulls at once; a
 * message that delivery hands out afterwards is returned to the lane.
 */
import { ApiError } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { PullResult, Pulls } from '../../delivery/delivery.ts'
import { releaseBuffer } from './release-buffer.ts'

export const maxWaitMs = 30_000
export const defaultWaitMs = 5_000
const sliceMs = 2_000
/** Timers fire slightly early or late. A slice that ends this much before its time did not end early. */
const toleranceMs = 100
const rememberedRevocations = 100

export interface PullWait {
  workspaceId: string
  /** Null: the caller did not use a key. */
  apiKeyId: string | null
  destinationId: string
  waitMs: number
  afterSeq: number | null
  isAborted(): boolean
}

/** The result of a pull. `close` is called when its response was sent, or when it never will be. */
export interface FoundPull {
  result: PullResult
  close(): void
}

interface OpenPull {
  readonly wait: PullWait
  /** The size of the message that this pull holds in memory. */
  bytes: number
  isRevoked: boolean
  revoke(): void
}

interface WorkspacePulls {
  readonly pulls: Set<OpenPull>
  /** Messages that were read but not sent because there was no room: their size, by request. */
  readonly rejected: Map<string, number>
}

export class LongPoll {
  readonly #pulls: Pick<Pulls, 'pull' | 'abandoned'>
  readonly #now: () => number
  readonly #open = new Map<string, WorkspacePulls>()
  /**
   * The keys that were revoked last. A request can be authenticated just before the revocation and begin to wait just
   * after it.
   */
  readonly #revoked: string[] = []

  /** `now`: a monotonic clock in ms. */
  constructor(pulls: Pick<Pulls, 'pull' | 'abandoned'>, now: () => number = () => performance.now()) {
    this.#pulls = pulls
    this.#now = now
  }

  /**
   * Resolves with `empty` when the time is over. Throws `pull_concurrency_exceeded`, and `unauthorized` once the key
   * is revoked.
   */
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

  /** Its waiting pulls get a 401. A response that is being sent is completed. */
  revoke(apiKeyId: string): void {
    this.#revoked.push(apiKeyId)
    if (this.#revoked.length > rememberedRevocations) this.#revoked.shift()
    for (const { pulls } of this.#open.values())
      for (const pull of [...pulls]) if (pull.wait.apiKeyId === apiKeyId) pull.revoke()
  }

  #begin(wait: PullWait): { pull: OpenPull; revoked: Promise<never> } {
    if (wait.apiKeyId !== null && this.#revoked.includes(wait.apiKeyId)) throw new ApiError('unauthorized')
    const own = this.#open.get(wait.workspaceId) ?? { pulls: new Set(), rejected: new Map() }
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
      releaseBuffer(message.json)
      remember(own.rejected, pull.wait, bytes)
      throw tooManyUnread()
    }
    pull.bytes = bytes
  }

  /** A message that had no room is not read again until there is room: each read slows down the lanes of all pipes. */
  #requireRoomAgain({ pulls, rejected }: WorkspacePulls, wait: PullWait): void {
    const bytes = rejected.get(requestKey(wait))
    if (bytes === undefined) return
    if (!this.#hasRoom({ pulls, rejected }, bytes)) throw tooManyUnread()
    rejected.delete(requestKey(wait))
  }

  /** A workspace that holds no message always gets one, as long as this process has room for it. */
  #hasRoom({ pulls }: WorkspacePulls, bytes: number): boolean {
    const ofWorkspace = heldBytes(pulls)
    const ofAll = heldBytes([...this.#open.values()].flatMap((own) => [...own.pulls]))
    const { pulledBytesPerWorkspace, pulledBytes } = resourceLimits
    const fitsOwn = ofWorkspace === 0 || ofWorkspace + bytes <= pulledBytesPerWorkspace
    return fitsOwn && (ofAll === 0 || ofAll + bytes <= pulledBytes)
  }

  #abandon({ destinationId }: PullWait, result: PullResult): void {
    // A failure ends the lane, which reports it.
    if (result.kind !== 'message') return
    this.#pulls.abandoned({ destinationId, pullId: result.pullId }).catch(() => {})
  }
}

function heldBytes(pulls: Iterable<OpenPull>): number {
  let bytes = 0
  for (const pull of pulls) bytes += pull.bytes
  return bytes
}

function requestKey({ destinationId, afterSeq }: PullWait): string {
  return `${destinationId} ${afterSeq}`
}

/** Keeps at most as many entries as a workspace can have pulls. The oldest is removed. */
function remember(rejected: Map<string, number>, wait: PullWait, bytes: number): void {
  rejected.set(requestKey(wait), bytes)
  if (rejected.size <= resourceLimits.pullsPerWorkspace) return
  for (const oldest of rejected.keys()) return void rejected.delete(oldest)
}

function tooManyUnread(): ApiError {
  return tooManyPulls(
    'The responses of earlier pulls that were not read yet use too much memory. Read them first.',
  )
}

function tooManyPulls(message?: string): ApiError {
  return new ApiError('pull_concurrency_exceeded', {
    headers: { 'Retry-After': '1' },
    ...(message === undefined ? {} : { message }),
  })
}
