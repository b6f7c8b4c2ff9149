/**
 * The directory in memory: one map of pipes and one of key hashes, filled at start from the source and replaced piece
 * by piece. The hot path only reads the maps.
 *
 * A key hash that is not in the map is looked for in the source, because another process (`pipectl workspaces
 * create`) may have made the key. Callers that ask for the same hash share one look-up, and a hash that was not there
 * is remembered as absent for a second: a stranger repeating one key reaches the file once a second and no more.
 * Both are dropped when keys are refreshed, so a key made here works at once.
 */
import type { Directory, DirectoryKey, DirectoryPipe, DirectorySource } from './directory.ts'

const absentForMs = 1_000
/** At most this many absent hashes are remembered: strangers with a new key each time must not fill the memory. */
const absentMax = 10_000

export interface DirectoryCacheOptions {
  /** A monotonic clock in ms. */
  now?: () => number
}

/** Resolves once every pipe and key of the source is loaded. */
export async function openDirectory(
  source: DirectorySource,
  { now = () => performance.now() }: DirectoryCacheOptions = {},
): Promise<Directory> {
  const pipes = new Map<string, DirectoryPipe>()
  for (const entry of await source.allPipes()) pipes.set(entry.pipe.pipe_id, entry)
  const keys = createKeyCache(source, now)
  await keys.refresh()
  const refreshOne = createLatestWins(source, pipes)
  return {
    pipe: (pipeId) => pipes.get(pipeId),
    key: keys.find,
    refreshPipe: (pipeId) => refreshOne(pipeId.toLowerCase()),
    refreshKeys: keys.refresh,
  }
}

/**
 * Two reloads of one pipe may answer in either order; the one that was asked for last holds the newest state. An older
 * answer that comes later is thrown away. Both callers see a state at least as new as the one they asked for.
 */
function createLatestWins(
  source: DirectorySource,
  pipes: Map<string, DirectoryPipe>,
): (pipeId: string) => Promise<void> {
  const underWay = new Map<string, { asked: number; applied: number; waiting: number }>()
  return async (pipeId) => {
    const state = underWay.get(pipeId) ?? { asked: 0, applied: 0, waiting: 0 }
    underWay.set(pipeId, state)
    state.asked += 1
    state.waiting += 1
    const mine = state.asked
    try {
      const entry = await source.pipe(pipeId)
      if (mine < state.applied) return
      state.applied = mine
      if (entry === null) pipes.delete(pipeId)
      else pipes.set(pipeId, entry)
    } finally {
      state.waiting -= 1
      if (state.waiting === 0) underWay.delete(pipeId)
    }
  }
}

interface KeyCache {
  find(hash: string): DirectoryKey | undefined | Promise<DirectoryKey | undefined>
  refresh(): Promise<void>
}

function createKeyCache(source: DirectorySource, now: () => number): KeyCache {
  let known = new Map<string, DirectoryKey>()
  const absent = new Map<string, number>()
  const lookUps = new Map<string, Promise<DirectoryKey | undefined>>()
  /** Refreshes asked for, and the newest one whose answer was applied. */
  let asked = 0
  let applied = 0

  async function lookUp(hash: string): Promise<DirectoryKey | undefined> {
    const askedBefore = asked
    const key = await source.key(hash)
    // A refresh was asked for in between: this answer may be older than a revocation. Ask again.
    if (askedBefore !== asked) return await lookUp(hash)
    if (key === null) rememberAbsent(absent, hash, now() + absentForMs)
    else known.set(hash, key)
    return key ?? undefined
  }

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

    async refresh() {
      asked += 1
      const mine = asked
      const loaded = await source.allKeys()
      if (mine < applied) return
      applied = mine
      known = loaded
      absent.clear()
    },
  }
}

/** Entries stand in the order they run out: the oldest go first. */
function rememberAbsent(absent: Map<string, number>, hash: string, until: number): void {
  absent.delete(hash)
  absent.set(hash, until)
  if (absent.size <= absentMax) return
  for (const oldest of absent.keys()) {
    absent.delete(oldest)
    return
  }
}
