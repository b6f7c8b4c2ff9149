/** A disk that fails: the daemon ends with 70 and one line that names the file, and says what to do. */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { binary, cleanEnv, initDataDir, startDaemon } from '../support/daemon.ts'
import { faultyDisk } from '../support/faults/library.ts'

async function openDisk(t: Test) {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-storage-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const dataDir = path.join(root, 'data')
  const { api_key: apiKey } = await initDataDir(dataDir)
  return { dataDir, apiKey, disk: faultyDisk(dataDir, path.join(root, 'work')) }
}

/** Until it ends by itself. */
function serve(
  dataDir: string,
  env: Record<string, string>,
): Promise<{ code: number | null; stderr: string }> {
  const args = [binary, 'serve', '--data-dir', dataDir, '--listen', '127.0.0.1:0']
  const child = spawn(process.execPath, args, {
    env: cleanEnv({ PIPECTL_METRICS_LISTEN: '127.0.0.1:0', PIPECTL_LOG_FORMAT: 'json', ...env }),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stderr })))
}

t.test('an I/O error in metadata.db while a request is served: exit 70, one line says why', async (t) => {
  const { dataDir, apiKey, disk } = await openDisk(t)
  const daemon = await startDaemon({ dataDir, env: disk.env })
  daemon.apiKey = apiKey
  t.teardown(() => daemon.close())
  disk.plan({ at: 1, error: 'EIO', until: 'always', match: 'metadata.db' })
  await daemon
    .api('POST', '/v1/pipes', { pipe_name: 'x' }, { isBroken: true })
    .then((answer) => t.equal(answer.status, 500))
    .catch(() => t.pass('the connection ended with the process'))
  t.equal(await daemon.exit, 70)
  t.same(daemon.noise, [], 'no stack outside the log')
  const fatal = daemon.log.filter(({ msg }) => msg === 'daemon.failed')
  t.equal(fatal.length, 1)
  t.match(fatal[0], {
    part: 'main',
    err: { message: new RegExp(`${dataDir}/metadata.db failed: .*SQLITE_IOERR`), hint: /disk errors/ },
  })
})

for (const part of ['metadata.db', 'buffer/']) {
  t.test(`an I/O error in ${part} during the start: exit 70, and the file is named`, async (t) => {
    const { dataDir, disk } = await openDisk(t)
    disk.plan({ at: 1, error: 'EIO', until: 'always', match: part })
    const { code, stderr } = await serve(dataDir, disk.env)
    t.equal(code, 70, stderr)
    t.match(stderr, path.join(dataDir, part))
    t.match(stderr, /look for disk errors in the system log/)
    t.notMatch(stderr, '[object Object]')
  })
}

t.test('a page of zeros in metadata.db: exit 78, and the file is named', async (t) => {
  const { dataDir } = await openDisk(t)
  const file = path.join(dataDir, 'metadata.db')
  const content = readFileSync(file)
  const pageBytes = content.readUInt16BE(16)
  writeFileSync(file, content.fill(0, pageBytes, 2 * pageBytes))
  const { code, stderr } = await serve(dataDir, {})
  t.equal(code, 78, stderr)
  t.match(stderr, `${file} is damaged (`)
  t.match(stderr, /Nothing was changed\. Keep the file, and restore the newest backup/)
})
