/**
 * The senders of examples/, each in its language, against the real daemon behind a proxy that mistreats the first
 * batch. A pull lane counts the records that arrived: each record once, with every digit.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { request } from 'undici'
import { startDaemon } from '../support/daemon.ts'
import { type Ended, openLanguages, runProgram } from '../support/languages.ts'

const daemon = await startDaemon()
const languages = openLanguages()
t.teardown(async () => {
  languages.close()
  await daemon.close()
})

const files = ['send.sh', 'send.mjs', 'send.py', 'send.go', 'send.php', 'send.c']

/**
 * The outcome of a request. `silent`: it is stored, and no response comes. `lost`: it is stored, and the connection
 * ends.
 */
type Fate = 'silent' | 'busy' | 'lost' | 'forwarded'

interface Attempt {
  fate: Fate
  headers: IncomingHttpHeaders
  body: string
  at: number
}

/** In front of the daemon; the first requests get these fates, the others are forwarded. */
async function openProxy(fates: readonly Fate[]) {
  const attempts: Attempt[] = []
  const open: ServerResponse[] = []
  const server = createServer(async (incoming, response) => {
    open.push(response)
    const pieces: Buffer[] = []
    for await (const piece of incoming) pieces.push(piece)
    const body = Buffer.concat(pieces)
    const fate = fates[attempts.length] ?? 'forwarded'
    attempts.push({ fate, headers: incoming.headers, body: body.toString(), at: Date.now() })
    if (fate === 'busy') {
      response.writeHead(503, { 'Retry-After': '2' }).end('{"error":"buffer_unavailable"}')
      return
    }
    const { host, connection, 'content-length': _length, expect: _expect, ...headers } = incoming.headers
    const answer = await request(`${daemon.dataUrl}${incoming.url}`, {
      method: 'POST',
      headers: headers as Record<string, string>,
      body,
    })
    const text = await answer.body.text()
    if (fate === 'lost') response.destroy()
    else if (fate === 'forwarded')
      response.writeHead(answer.statusCode, { 'Content-Type': 'application/json' }).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  return {
    attempts,
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

let made = 0

/** One run of an example with these records as stdin, and what has arrived of it. */
async function send(file: string, input: string, { fates = [] as readonly Fate[], key = '' } = {}) {
  const name = `send${made++}`
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const app = await daemon.api<{ api_key: string }>('POST', '/v1/api-keys', {
    ...{ api_key_name: name, api_key_scopes: ['ingest'], api_key_pipe_ids: [pipeId] },
  })
  const proxy = await openProxy(fates)
  const env = {
    PIPECTL_INGEST_URL: `http://127.0.0.1:${proxy.port}/v1/ingest/${pipeId}`,
    PIPECTL_API_KEY: key || app.body.api_key,
    PIPECTL_HOST: '127.0.0.1',
    PIPECTL_PORT: String(proxy.port),
    PIPECTL_PIPE: pipeId,
  }
  const ended = await runProgram(await languages.commandOf(`send/${file}`), input, env)
  proxy.close()
  const arrived: string[] = []
  for (;;) {
    const { status, text } = await daemon.api('GET', `/v1/pull/${lane}?wait_ms=0`)
    if (status !== 200) break
    arrived.push(...text.slice(text.indexOf('"records":[') + '"records":['.length, -2).split(/(?<=\}),/))
  }
  return { ...ended, attempts: proxy.attempts, arrived }
}

const records = Array.from({ length: 1_200 }, (_, n) => `{"n":${n},"price":1.10,"id":12345678901234567890}`)
const said = ({ code, stdout }: Ended) => `${code} ${stdout}`
const fates: Fate[] = ['silent', 'busy', 'lost']
// Blank lines, and a last line without its end.
const input = `\n${records.slice(0, 600).join('\n')}\n\n  \n${records.slice(600).join('\n')}`
/** All at once: the first request of each waits ten seconds for nothing. */
const troubled = new Map(files.map((file) => [file, send(file, input, { fates })]))

for (const file of files) {
  t.test(
    `${file}: no response, 503 and a lost response: the batch is repeated, and stored once`,
    async (t) => {
      const { attempts, arrived, ...ended } = await troubled.get(file)!
      t.equal(said(ended), '0 1200 records stored\n', ended.stderr)
      t.same(arrived, records)
      // The daemon had the first batch three times.
      t.same(
        attempts.slice(0, 4).map(({ fate }) => fate),
        [...fates, 'forwarded'],
      )
      const [first, busy, next, last] = attempts
      for (const one of [busy, next, last]) {
        t.equal(one?.headers['idempotency-key'], first?.headers['idempotency-key'])
        t.equal(one?.body, first?.body)
      }
      const keys = attempts.slice(3).map(({ headers }) => headers['idempotency-key'])
      t.ok(keys.length > 1 && new Set(keys).size === keys.length, 'each batch has a key of its own')
      t.ok((next?.at ?? 0) - (busy?.at ?? 0) >= 1_900, 'it waits as long as it is told')
    },
  )

  t.test(`${file}: what is rejected for good ends it with 1 at once, and says why`, async (t) => {
    const bad = await send(file, '{"n":1}\n{"n":\n')
    t.same([bad.code, bad.stdout, bad.attempts.length, bad.arrived], [1, '', 1, []])
    t.match(bad.stderr, /400 .*invalid_payload/)
    const key = `ppl1_${'A'.repeat(38)}`
    const stranger = await send(file, '{"n":1}\n', { key })
    t.same([stranger.code, stranger.attempts.length, stranger.arrived], [1, 1, []])
    t.match(stranger.stderr, /401 .*unauthorized/)
    t.notMatch(stranger.stderr, key)
  })

  t.test(`${file}: nothing to send, and nowhere to send it`, async (t) => {
    const nothing = await send(file, '')
    t.same([said(nothing), nothing.attempts], ['0 0 records stored\n', []])
    const nowhere = await runProgram(await languages.commandOf(`send/${file}`), '{}\n', {})
    t.equal(nowhere.code, 1)
    t.match(nowhere.stderr, /^send: .* must be set\n$/)
  })
}
