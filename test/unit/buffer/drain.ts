/**
 * A program for fault tests: opens a buffer, reads everything of a pipe, appends a message, reads that, and prints what
 * came of it as JSON. Arguments: directory, pipe id, how many messages were appended, settings as JSON.
 */
import { until } from '../../support/until.ts'
import { message, openBufferAt, readAll } from './open.ts'

const [root = '', pipeId = '', appended = '', settings = '{}'] = process.argv.slice(2)
const { handle, reader, close } = await openBufferAt(root, JSON.parse(settings))
const seqs = (await readAll(reader, pipeId)).map(({ seq }) => seq)
const next = await handle.appender.append(message(pipeId, 'next'))
const after = await readAll(reader, pipeId, next.seq - 1)
const lost = Number(appended) - seqs.length
await until('what is lost is counted', async () => (await handle.status()).lostMessages === lost)
process.stdout.write(JSON.stringify({ seqs, after: after.map(({ body }) => body.toString()) }))
await close()
