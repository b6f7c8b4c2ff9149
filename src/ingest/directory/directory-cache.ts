/**
 * The directory in memory: one map of pipes and one of key hashes, filled at start from the source and replaced piece
 * by piece. The hot path only reads the maps.
 *
 * A key hash that is not in the map is looked for in the source, because another process (`pipectl workspaces
 * create`) may have made the key. Callers that ask for the same hash share one look-up, and a hash that was not there
 * is remembered as absent for a second: a client that repeats one unknown key reaches the file once a second and no more.
 * Both are dropped for a key that is refreshed, so one made here works at once. One key is refreshed at a time: what it
 * costs to make one does not grow with the keys there are.
 *
 * When keys were last used (docs/dev/contract.md#key-scopes), to the minute. A request sets a flag on its key and no more; the
 * flags are collected here every few seconds, those of the ingest threads too, and a key is stored once in a minute in
 * which it was used. What a crash loses is the last seconds of it.
 */
import type { ApiKeyScope } from '../../contract/api-key.ts'
import type {
  Directory,
  DirectoryKey,
  DirectoryPipe,
  DirectorySource,
  KnownKey,
} from '../../metadata/directory-source.ts'
import type { Logger } from '../../platform/log.ts'

const absentForMs = 1_000
/** At most this many absent hashes are remembered: clients with a new unknown key each time must not fill the memory. */
const absentMax = 10_000

export interface DirectoryCacheOptions {
  /** A monotonic clock in ms. */
  now?: () => number
  onPipeDeleted?: (pipeId: string) => void
}

/** Resolves once every pipe and key of the source is loaded. */
export async function openDirectory(
  source: DirectorySource,
  { now = () => performance.now(), onPipeDeleted = () => {} }: DirectoryCacheOptions = {},
): Promise<Directory> {
  const pipes = new Map<string, DirectoryPipe>()
  for (const entry of await source.allPipes()) pipes.set(entry.pipe.pipe_id, entry)
  const keys = createKeyCache(source, await source.allKeys(), now)
  const refreshPipe = createLatestWins(source.pipe, (pipeId, entry) => {
    if (entry !== null) pipes.set(pipeId, entry)
    else if (pipes.delete(pipeId)) onPipeDeleted(pipeId)
  })
  return {
    pipe: (pipeId) => pipes.get(pipeId),
    key: keys.find,
    refreshPipe: (pipeId) => refreshPipe(pipeId.toLowerCase()),
    refreshKey: (apiKeyId) => keys.refresh(apiKeyId.toLowerCase()),
    takeUsedKeys: keys.takeUsed,
  }
}

/**
 * Two reloads of one entry may finish in either order; the one that was asked for last holds the newest state. An older
 * result that comes later is dropped. Both callers see a state at least as new as the one they asked for.
 */
function createLatestWins<T>(
  load: (id: string) => Promise<T>,
  apply: (id: string, loaded: T) => void,
): (id: string) => Promise<void> {
  const underWay = new Map<string, { asked: number; applied: number; waiting: number }>()
  return async (id) => {
    const state = underWay.get(id) ?? { asked: 0, applied: 0, waiting: 0 }
    underWay.set(id, state)
    state.asked += 1
    state.waiting += 1
    const mine = state.asked
    try {
      const loaded = await load(id)
      if (mine < state.applied) return
      state.applied = mine
      apply(id, loaded)
    } finally {
      state.waiting -= 1
      if (state.waiting === 0) underWay.delete(id)
    }
  }
}

interface KeyCache {
  find(hash: string): KnownKey | undefined | Promise<KnownKey | undefined>
  refresh(apiKeyId: string): Promise<void>
  takeUsed(): string[]
}

function createKeyCache(
  source: DirectorySource,
  loaded: ReadonlyMap<string, DirectoryKey>,
  now: () => number,
): KeyCache {
  const known = new Map([...loaded].map(([hash, key]) => [hash, knownKey(key)]))
  const absent = new Map<string, number>()
  const lookUps = new Map<string, Promise<KnownKey | undefined>>()
  /** Refreshes asked for. */
  let asked = 0
  /** Used, and no longer known as they were. */
  const usedBefore = new Set<string>()

  const replace = (hash: string, next: KnownKey | null) => {
    const before = known.get(hash)
    if (before?.isUsed && before.by.kind === 'key') usedBefore.add(before.by.apiKeyId)
    if (next === null) known.delete(hash)
    else known.set(hash, next)
  }

  async function lookUp(hash: string): Promise<KnownKey | undefined> {
    const askedBefore = asked
    const key = await source.key(hash)
    // A refresh was asked for in between: this result may be older than a revocation. Ask again.
    if (askedBefore !== asked) return await lookUp(hash)
    if (key === null) {
      rememberAbsent(absent, hash, now() + absentForMs)
      return undefined
    }
    const found = knownKey(key)
    replace(hash, found)
    return found
  }

  const refresh = createLatestWins(source.keyById, (apiKeyId, key) => {
    // Revoked, and its row is gone already.
    if (key === null) {
      for (const [hash, { by }] of known)
        if (by.kind === 'key' && by.apiKeyId === apiKeyId) replace(hash, null)
      return
    }
    absent.delete(key.hash)
    replace(key.hash, key.isActive ? knownKey(key) : null)
  })

  return {
    find(hash) {
      const key = known.get(hash)
      if (key !== undefined) return key
      const until = absent.get(hash)
      if (until !== undefined) {
        if (now() < until) return undefined
        absent.delete(hash)
      }
      const shared = lookUps.get(hash)
      if (shared !== undefined) return shared
      const own = lookUp(hash).finally(() => lookUps.delete(hash))
      lookUps.set(hash, own)
      return own
    },

    refresh(apiKeyId) {
      asked += 1
      return refresh(apiKeyId)
    },

    takeUsed() {
      const used = new Set(usedBefore)
      usedBefore.clear()
      for (const key of known.values()) {
        if (!key.isUsed) continue
        key.isUsed = false
        if (key.by.kind === 'key') used.add(key.by.apiKeyId)
      }
      return [...used]
    },
  }
}

function knownKey({ workspaceId, apiKeyId, scopes, pipeIds, expiresMs }: DirectoryKey): KnownKey {
  const may = (scope: ApiKeyScope) => scopes.includes(scope) || scopes.includes('manage')
  return {
    workspaceId,
    by: { kind: 'key', apiKeyId },
    may: { ingest: may('ingest'), pull: may('pull'), read: may('read'), manage: may('manage') },
    pipeIds: pipeIds === null ? null : new Set(pipeIds),
    expiresMs: expiresMs ?? Number.POSITIVE_INFINITY,
    isUsed: false,
  }
}

/** Entries are in the order they expire: the oldest go first. */
function rememberAbsent(absent: Map<string, number>, hash: string, until: number): void {
  absent.delete(hash)
  absent.set(hash, until)
  if (absent.size <= absentMax) return
  for (const oldest of absent.keys()) {
    absent.delete(oldest)
    return
  }
}

export interface KeyUseOptions {
  directory: Pick<Directory, 'takeUsedKeys'>
  /** Stores that they were used in the minute that began then. */
  store(apiKeyIds: readonly string[], minuteMs: number): Promise<void>
  /** The wall clock, ms. */
  now(): number
}

const everyMs = 5_000
const minuteMs = 60_000

export class KeyUse {
  readonly #options: KeyUseOptions
  /** Used since they were stored last. */
  readonly #used = new Set<string>()
  /** Those that the current minute is stored of. */
  readonly #stored = new Set<string>()
  #minute = 0

  constructor(options: KeyUseOptions) {
    this.#options = options
  }

  /** Returns what ends it. */
  start(log: Logger): () => void {
    const flush = () => this.flush().catch((error) => log.warn({ err: error }, 'keys.use_not_stored'))
    const timer = setInterval(flush, everyMs).unref()
    return () => clearInterval(timer)
  }

  /** Adds the keys that an ingest thread reports. */
  used(apiKeyIds: readonly string[]): void {
    for (const id of apiKeyIds) this.#used.add(id)
  }

  /** Rejects when it cannot be stored: the next time says it again. */
  async flush(): Promise<void> {
    this.used(this.#options.directory.takeUsedKeys())
    const nowMs = this.#options.now()
    const minute = nowMs - (nowMs % minuteMs)
    if (minute !== this.#minute) this.#stored.clear()
    this.#minute = minute
    const ids = [...this.#used].filter((id) => !this.#stored.has(id))
    this.#used.clear()
    if (ids.length === 0) return
    for (const id of ids) this.#stored.add(id)
    try {
      await this.#options.store(ids, minute)
    } catch (error) {
      for (const id of ids) {
        this.#stored.delete(id)
        this.#used.add(id)
      }
      throw error
    }
  }
}
