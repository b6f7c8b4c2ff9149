/** One line that says how far work on many has come, on a terminal only. */
import { count } from '../../../platform/quantities.ts'
import { io } from '../io.ts'

const redrawMs = 100

export interface CountProgress {
  update(done: number): void
  end(): void
}

/** `Replayed 120 of 500`. */
export function openCountProgress(verb: string, total: number): CountProgress {
  if (io().stderr.isTTY !== true) return { update: () => {}, end: () => {} }
  let drawnMs = 0
  return {
    update(done) {
      if (Date.now() - drawnMs < redrawMs) return
      drawnMs = Date.now()
      io().stderr.write(`\r\x1b[K${verb} ${count(done)} of ${count(total)}`)
    },
    end: () => io().stderr.write('\r\x1b[K'),
  }
}
