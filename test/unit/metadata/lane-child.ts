/**
 * A process that moves one lane on, save by save, and prints the cursor of each save that resolved:
 * `together|apart spec-as-json sealing-key-hex pipe-id destination-id`. It goes on until it is killed. `apart` saves row and
 * counts in two calls and kills itself between them. A save that fails does not end it: only the store may.
 */
import { writeSync } from 'node:fs'
import { openMetadata } from '../../../src/stores/open-metadata.ts'

const [mode, spec, keyHex, pipeId, destinationId] = process.argv.slice(2)
if (spec === undefined || keyHex === undefined || pipeId === undefined || destinationId === undefined) {
  throw new Error('five arguments expected')
}
const metadata = await openMetadata(JSON.parse(spec), Buffer.from(keyHex, 'hex'))
const row = await metadata.laneStore.load(destinationId)
if (row === null) throw new Error('no lane row')

const counts = [
  { destinationId, pipeId, deliveredRecords: 1, failedAttempts: 0, skippedRecords: 0, filteredRecords: 2 },
]
for (;;) {
  row.cursorSeq += 1
  row.deliveredRecords += 1
  row.filteredRecords += 2
  if (mode === 'apart') {
    await metadata.laneStore.save([row], [])
    process.kill(process.pid, 'SIGKILL')
    await metadata.laneStore.save([], counts)
  }
  try {
    await metadata.laneStore.save([row], counts)
    writeSync(1, `${row.cursorSeq}\n`)
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 60_000))
  }
}
