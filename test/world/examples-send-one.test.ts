/**
 * The programs of examples/send-one, which are the snippets of the dashboard: each in its language, as it is, and as the snippet
 * of a pipe whose record has every kind of value.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { programNames, programSnippet } from '../../src/apps/client/program-snippets.ts'
import { startDaemon } from '../support/daemon.ts'
import { examplesDir, openLanguages, runProgram } from '../support/languages.ts'

const daemon = await startDaemon()
const languages = openLanguages()
const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-snippets-'))
t.teardown(async () => {
  languages.close()
  rmSync(directory, { recursive: true, force: true })
  await daemon.close()
})

async function makePipe(name: string) {
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const { body } = await daemon.api<{ api_key: string }>('POST', '/v1/api-keys', {
    ...{ api_key_name: name, api_key_scopes: ['ingest'], api_key_pipe_ids: [pipeId] },
  })
  const arrived = async () => {
    const { status, body } = await daemon.api<{ records: unknown[] }>('GET', `/v1/pull/${lane}?wait_ms=0`)
    return status === 200 ? body.records : []
  }
  return { url: `${daemon.dataUrl}/v1/ingest/${pipeId}`, key: body.api_key, arrived }
}

/** With what would end a text or a literal of some language. */
const record = {
  event: 'it\'s \\ "quoted" $HOME {x} é \u2028 \n end',
  "o'clock $(id)": true,
  no: false,
  nothing: null,
  count: 12345.5,
  empty: {},
  list: [],
}

for (const program of programNames) {
  const file = `send-one/send.${program}`
  const source = readFileSync(path.join(examplesDir, file), 'utf8')

  t.test(`${file} runs as it is, and fails if the record is not stored`, async (t) => {
    const { url, key, arrived } = await makePipe(`as-it-is-${program}`)
    const command = await languages.commandOf(file)
    const ended = await runProgram(command, '', { PIPECTL_INGEST_URL: url, PIPECTL_API_KEY: key })
    t.equal(ended.code, 0, ended.stderr)
    t.same(await arrived(), [{ event: 'signup', user_id: 42 }])
    const rejected = await runProgram(command, '', { PIPECTL_INGEST_URL: url, PIPECTL_API_KEY: 'wrong' })
    t.not(rejected.code, 0)
    t.match(rejected.stderr, /401|unauthorized/i)
    t.same(await arrived(), [])
  })

  t.test(`the snippet of ${file} contains the address, the key and the record of its pipe`, async (t) => {
    const { url, key, arrived } = await makePipe(`snippet-${program}`)
    const snippet = programSnippet(program, source, { url, key, record })
    t.notMatch(snippet, /PIPECTL_|signup/, 'nothing is left to replace')
    const copied = path.join(directory, `snippet.${program}`)
    writeFileSync(copied, snippet)
    const ended = await runProgram(await languages.commandOf(copied), '', {})
    t.equal(ended.code, 0, ended.stderr)
    t.strictSame(await arrived(), [record])
  })
}
