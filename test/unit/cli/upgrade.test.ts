/** `pipectl upgrade --check` against a real server: what it prints and how it exits, also for lists that are wrong. */
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { planUpgrade } from '../../../src/apps/cli/upgrade/plan.ts'
import { compareVersions, type Release } from '../../../src/apps/cli/upgrade/releases.ts'
import { runCli } from '../../support/cli.ts'

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'))

function release(over: Partial<Release> = {}): Release {
  return {
    version: '99.1.0',
    date: '2027-02-01',
    notes: 'release-notes.md',
    before_upgrade: '- **Scripts**: read this first.',
    minimum_upgrade_from: '0.1.0',
    data_formats: { metadata: 900, log: 2 },
    ...over,
  }
}

const listOf = (...releases: object[]) => JSON.stringify({ format: 1, releases })

/** Serves the answer at every path. Returns the address and the paths that were requested. */
async function serve(t: Test, answer: (response: ServerResponse) => void) {
  const paths: string[] = []
  const server = createServer((request, response) => {
    paths.push(request.url ?? '')
    answer(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, paths }
}

const check = (from: string, ...args: string[]) => runCli(['upgrade', '--check', '--from', from, ...args])

t.test('a newer release: exit code 8, with what changes', async (t) => {
  const { url, paths } = await serve(t, (response) => response.end(listOf(release(), release({ version }))))
  const { code, stdout, stderr } = await check(`${url}/pipectl/`)
  t.equal(code, 8)
  t.equal(stderr, '')
  t.same(paths, ['/pipectl/releases.json'])
  t.match(stdout, /newest release +99\.1\.0, of 2027-02-01/)
  t.match(stdout, `${url}/pipectl/release-notes.md`)
  t.match(stdout, /data +converted at the first start: metadata format \d+ to 900/)
  t.match(stdout, 'the running version does not open converted data')
  t.match(stdout, /before 99\.1\.0 +- \*\*Scripts\*\*: read this first/)

  const json = await check(`${url}/releases.json`, '-o', 'json')
  t.equal(json.code, 8)
  t.match(JSON.parse(json.stdout), {
    version,
    newest: '99.1.0',
    is_upgrade_available: true,
    opens_data: true,
  })
  t.equal((await check(url, '-o', 'name')).stdout, '99.1.0\n')
})

t.test('no newer release, in a folder: exit code 0', async (t) => {
  const folder = t.testdir()
  writeFileSync(
    path.join(folder, 'releases.json'),
    listOf(release({ version }), release({ version: '99.0.0-rc.1' })),
  )
  const { code, stdout } = await check(pathToFileURL(folder).href, '-o', 'json')
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { version, newest: version, is_upgrade_available: false, before_upgrade: [] })
  t.match((await check(pathToFileURL(folder).href)).stdout, 'no newer release')
})

t.test('the variable names the address; without one nothing is read', async (t) => {
  const { url } = await serve(t, (response) => response.end(listOf(release({ version }))))
  const named = await runCli(['upgrade', '--check'], { env: { PIPECTL_RELEASES_URL: url } })
  t.equal(named.code, 0, named.stderr)
  t.match(await runCli(['upgrade', '--check']), {
    code: 2,
    stderr: /no address of the releases[\s\S]*--from/,
  })
  t.match(await runCli(['upgrade']), { code: 2, stderr: /installs nothing[\s\S]*--check/ })
  t.match(await check('ftp://example.com'), { code: 2, stderr: /"ftp:\/\/example\.com" is not an address/ })
})

t.test('what is no list of releases is an error with its reason: exit code 1', async (t) => {
  const wrong: [answer: (response: ServerResponse) => void, reason: RegExp][] = [
    [(response) => response.writeHead(404).end(), /status 404/],
    [(response) => response.end('<html>'), /it is not JSON/],
    [(response) => response.end('[]'), /it has no format/],
    [(response) => response.end('{"format":2,"releases":[]}'), /has format 2/],
    [(response) => response.end('{"format":1}'), /it has no releases/],
    [(response) => response.end(listOf(release(), { version: '1.0.0' })), /a release in it is incomplete/],
    [(response) => response.end(listOf(release({ version: '1.0; rm' }))), /incomplete/],
    [(response) => response.end(' '.repeat(2 ** 20 + 1)), /longer than 1 MiB/],
    [(response) => response.destroy(), /cannot read http/],
  ]
  for (const [answer, reason] of wrong) {
    const { url } = await serve(t, answer)
    const { code, stderr, stdout } = await check(url)
    t.equal(code, 1, String(reason))
    t.match(stderr, reason)
    t.equal(stdout, '')
  }
  const folder = t.testdir()
  t.match(await check(pathToFileURL(folder).href), { code: 1, stderr: /no such file/ })
  mkdirSync(path.join(folder, 'long'))
  writeFileSync(path.join(folder, 'long/releases.json'), ' '.repeat(2 ** 20 + 1))
  t.match(await check(pathToFileURL(path.join(folder, 'long')).href), {
    code: 1,
    stderr: /longer than 1 MiB/,
  })
})

t.test('text of the list cannot act on the terminal', async (t) => {
  const hostile = release({ before_upgrade: 'one\u001b[2Jtwo', date: '\u001b]0;x\u0007' })
  const { url } = await serve(t, (response) => response.end(listOf(hostile)))
  const { stdout } = await check(url)
  t.notMatch(stdout, '\u001b')
  t.match(stdout, 'one\ufffd[2Jtwo')
})

t.test('a release that does not open the data: the one to install first', async (t) => {
  const url = new URL('https://downloads.example.com/pipectl/releases.json')
  const running = { version: '1.2.0', formats: { metadata: 40, log: 2 } }
  const formats = { metadata: 60, log: 3 }
  const list = [
    release({ version: '3.0.0', minimum_upgrade_from: '2.0.0', data_formats: formats }),
    release({ version: '2.1.0', minimum_upgrade_from: '1.0.0', before_upgrade: null }),
    release({ version: '2.0.0', minimum_upgrade_from: '1.0.0', before_upgrade: 'second' }),
    release({ version: '1.1.0' }),
  ]
  t.match(planUpgrade(running, list, url), {
    newest: '3.0.0',
    opens_data: false,
    install_first: '2.1.0',
    is_data_converted: true,
    notes_url: 'https://downloads.example.com/pipectl/release-notes.md',
    before_upgrade: [{ version: '2.0.0', text: 'second' }, { version: '3.0.0' }],
  })
  const [last] = list
  t.match(planUpgrade(running, last === undefined ? [] : [last], url), {
    opens_data: false,
    install_first: null,
  })
  const same = release({ data_formats: running.formats, notes: null })
  t.match(planUpgrade(running, [same], url), { is_data_converted: false, opens_data: true, notes_url: null })
})

t.test('versions are in the order of Semantic Versioning; previews are for previews', async (t) => {
  const order = ['0.9.0', '1.0.0-rc.2', '1.0.0-rc.10', '1.0.0', '1.0.1', '1.2.0', '1.10.0', '10.0.0']
  t.same([...order].reverse().sort(compareVersions), order)
  t.equal(compareVersions('1.0.0', '1.0.0'), 0)
  const url = new URL('file:///releases.json')
  const formats = { metadata: 1, log: 1 }
  const preview = release({ version: '2.0.0-rc.2' })
  t.match(planUpgrade({ version: '1.0.0', formats }, [preview], url), { is_upgrade_available: false })
  t.match(planUpgrade({ version: '2.0.0-rc.1', formats }, [preview], url), { newest: '2.0.0-rc.2' })
})
