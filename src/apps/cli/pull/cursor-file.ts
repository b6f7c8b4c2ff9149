/**
 * The position up to which messages of a pull lane are processed on this machine: one small file per destination
 * under the XDG state directory. The daemon's cursor moves only with the next request. Without the file, a consumer
 * that is killed between its output and that request would receive the message again.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { isObject } from '../../../contract/is-object.ts'
import { replaceFile, stateDir } from '../profile-store.ts'

export interface PullCursor {
  /** The last message whose output is complete. */
  doneSeq: number
  /** The last `after_seq` that the daemon has confirmed. */
  toldSeq: number
}

export interface CursorFile {
  load(): PullCursor | null
  save(cursor: PullCursor): void
}

export function openCursorFile(url: string, destinationId: string, env: NodeJS.ProcessEnv): CursorFile {
  const name = createHash('sha256').update(`${url} ${destinationId}`).digest('hex').slice(0, 32)
  const file = path.join(stateDir(env), 'pull', `${name}.json`)
  return {
    load() {
      let value: unknown
      try {
        value = JSON.parse(readFileSync(file, 'utf8'))
      } catch {
        return null
      }
      if (!isObject(value) || typeof value.doneSeq !== 'number' || typeof value.toldSeq !== 'number')
        return null
      return { doneSeq: value.doneSeq, toldSeq: value.toldSeq }
    },
    save(cursor) {
      replaceFile(file, JSON.stringify({ url, destination_id: destinationId, ...cursor }))
    },
  }
}

/**
 * The cursor to start with. The daemon's cursor is used if it is ahead (another consumer continued) or before the
 * position that the daemon confirmed (the lane was rewound). Otherwise the daemon does not know the last position
 * yet.
 */
export function startAfter(laneCursor: number, saved: PullCursor | null): number {
  if (saved === null || laneCursor >= saved.doneSeq || laneCursor < saved.toldSeq) return laneCursor
  return saved.doneSeq
}
