/** The object store of the replica bench, in a process of its own. Objects are in its memory. */
import { startBucketServer } from '../test/support/bucket-server.ts'

const server = await startBucketServer()
process.on('message', () => process.send?.({ counts: server.counts, bytes: bytes() }))
process.send?.({ endpoint: server.endpoint, account: server.account })

function bytes(): number {
  return [...server.objects.values()].reduce((sum, { body }) => sum + body.length, 0)
}
