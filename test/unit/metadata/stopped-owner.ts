/**
 * An owner of a lane that writes when it is told to: `spec-as-json sealing-key-hex pipe-id destination-id epoch`. A line on stdin names
 * a write and its arguments; the line that it prints says what came of it. The test stops the process before it tells it, so
 * the write is the first thing that it does when it goes on.
 */
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { type OwnerWrite, writesOf } from './owner-writes.ts'

const [spec, keyHex, pipeId, destinationId, epoch] = process.argv.slice(2)
if (spec === undefined || keyHex === undefined || pipeId === undefined || destinationId === undefined) {
  throw new Error('five arguments expected')
}
const metadata = await openMetadata(JSON.parse(spec), Buffer.from(keyHex, 'hex'))
const writes = writesOf(metadata, { destinationId, epoch: Number(epoch) }, pipeId)
writeSync(1, 'ready\n')
for await (const line of createInterface(process.stdin)) {
  const { name, parkedId } = JSON.parse(line) as { name: OwnerWrite; parkedId: string }
  try {
    await writes[name](parkedId)
    writeSync(1, 'stored\n')
  } catch (error) {
    writeSync(1, `${(error as Error).name}\n`)
  }
}
await metadata.close()
