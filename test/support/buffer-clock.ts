/** Moves the clock of a buffer that no process has open, as if its daemon had run for that long. */
import path from 'node:path'
import { openHighWater, readHighWater } from '../../src/log/segments/high-water.ts'

/** `dir`: the directory of the buffer. */
export function moveBufferClock(dir: string, ms: number): void {
  const file = path.join(dir, 'high-water')
  const found = readHighWater(file)
  if (typeof found === 'string') throw new Error(`${file}: ${found}`)
  const mark = openHighWater(file, found.identity)
  mark.write(found.seq, found.clockMs + ms)
  mark.close()
}
