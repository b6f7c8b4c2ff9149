/**
 * Finds and deletes records (`LogErasure`) in the log of one machine. A thread searches one segment after the other; the
 * writer rewrites those with a match, one at a time, between frames.
 *
 *   segments ──search──▶ no match ──▶ the next segment
 *                 ▲   └▶ match ──▶ writer: rewritten ──▶ progress ──▶ the next segment
 *                 │                  ├─ damaged or replaced: searched again, after a pause
 *                 └──────────────────┘
 *   then the quarantined files; then a pause until readers have the new files
 *
 * Nothing of a deletion is stored: a repeat after a crash finds what is left. The state after a crash: erasing.ts.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import type { Caller } from '../../platform/thread-calls.ts'
import { Thread, threadEntry } from '../../platform/threads.ts'
import { BufferReadUnavailableError } from '../buffer.ts'
import type { ErasureProgress, ErasureRequest, FoundRecord, LogErasure } from '../erasure.ts'
import type { ErasureOutcome } from './erasing.ts'
import type { FoundPage, FoundRows, SearchSpec } from './erasure-search.ts'
import type { ErasureCalls } from './erasure-thread.ts'
import type { SegmentsSpec, WriterCalls } from './protocol.ts'

/** A salvage takes seconds. */
const againAfterMs = 1_000
/** On a full disk a salvage waits for space. */
const maxTries = 120
/** Readers list the segments twice a second, and lanes read their batches again a second after a deletion. */
const readersAfterMs = 1_500

const noSpace = 'there is no disk space for a segment without the deleted records'

type Spec = Pick<SegmentsSpec, 'dir' | 'quarantineDir' | 'channel'>
type Writer = Pick<Caller<WriterCalls>, 'call'>
type Search = Thread<ErasureCalls>

export class SegmentsErasure implements LogErasure {
  readonly #spec: Spec
  readonly #writer: Writer

  constructor(spec: Spec, writer: Writer) {
    this.#spec = spec
    this.#writer = writer
  }

  async *find(request: ErasureRequest, signal?: AbortSignal): AsyncGenerator<FoundRecord> {
    const search = await this.#openSearch(request)
    try {
      for (const firstSeq of await search.call('segments', [])) {
        for (let fromSeq: number | null = 0; fromSeq !== null; ) {
          signal?.throwIfAborted()
          const page: FoundPage = await search.call('findPage', [firstSeq, fromSeq])
          yield* page.found
          fromSeq = page.nextSeq
        }
      }
    } finally {
      await search.close()
    }
  }

  async erase(
    request: ErasureRequest,
    onProgress: (progress: ErasureProgress) => void = () => {},
    signal?: AbortSignal,
  ): Promise<ErasureProgress> {
    const search = await this.#openSearch(request)
    const progress: ErasureProgress = { messages: 0, records: 0, files: 0, filesLeft: 0 }
    try {
      const segments = await search.call('segments', [])
      progress.filesLeft = segments.length
      for (const firstSeq of segments) {
        await this.#eraseIn(firstSeq, request, { search, progress, signal })
        progress.filesLeft -= 1
        onProgress({ ...progress })
      }
      progress.files += await search.call('removeQuarantined', [])
      if (progress.files > 0) await pause(readersAfterMs, undefined, { signal })
      onProgress({ ...progress })
      return progress
    } finally {
      await search.close()
    }
  }

  async #eraseIn(
    firstSeq: number,
    { conditions }: ErasureRequest,
    {
      search,
      progress,
      signal,
    }: { search: Search; progress: ErasureProgress; signal: AbortSignal | undefined },
  ): Promise<void> {
    for (let tries = 0; tries < maxTries; tries += 1) {
      const found = await rowsIn(firstSeq, search, signal)
      const outcome =
        typeof found === 'string' ? found : await this.#rewrite(firstSeq, found, { conditions, signal })
      if (outcome === 'erased' && typeof found !== 'string') {
        progress.messages += found.seqs.length
        progress.records += found.records
        progress.files += 1
      }
      if (outcome === 'disk_full') throw new StorageUnavailableError(noSpace)
      if (outcome === 'erased' || outcome === 'gone' || outcome === 'nothing') return
      await pause(againAfterMs, undefined, { signal })
    }
    throw new BufferReadUnavailableError(`segment ${firstSeq} is damaged and not salvaged yet`)
  }

  /** The writer is not interrupted: after an abort, it still finishes the segment. */
  async #rewrite(
    firstSeq: number,
    { seqs }: SegmentRows,
    { conditions, signal }: { conditions: ErasureRequest['conditions']; signal: AbortSignal | undefined },
  ): Promise<ErasureOutcome | 'nothing'> {
    if (seqs.length === 0) return 'nothing'
    return await unlessAborted(this.#writer.call('erase', [{ firstSeq, seqs, conditions }]), signal)
  }

  async #openSearch(request: ErasureRequest): Promise<Search> {
    const throughSeq = request.throughSeq ?? (await this.#writer.call('headSeq', []))
    const { dir, quarantineDir, channel } = this.#spec
    return new Thread<ErasureCalls>({
      name: 'buffer-erasure',
      entry: threadEntry(import.meta.url, './erasure-thread'),
      data: { channel, dir, quarantineDir, request: { ...request, throughSeq } } satisfies SearchSpec,
    })
  }
}

interface SegmentRows {
  seqs: number[]
  records: number
}

async function rowsIn(
  firstSeq: number,
  search: Search,
  signal: AbortSignal | undefined,
): Promise<SegmentRows | 'gone' | 'damaged'> {
  const rows: SegmentRows = { seqs: [], records: 0 }
  for (let fromSeq: number | null = 0; fromSeq !== null; ) {
    signal?.throwIfAborted()
    const slice: FoundRows | 'gone' | 'damaged' = await search.call('findRows', [firstSeq, fromSeq])
    if (typeof slice === 'string') return slice
    for (const seq of slice.seqs) rows.seqs.push(seq)
    rows.records += slice.records
    fromSeq = slice.nextSeq
  }
  return rows
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
