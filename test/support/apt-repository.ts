/**
 * The repository for apt of a release, published as docs/releases.md describes: static files on a web server; and the commands
 * there, for a Debian that reads packages from nowhere else.
 */
import { execFileSync } from 'node:child_process'
import { createReadStream, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'
import type { Test } from 'tap'
import { type DebianRoot, namesIn } from './debian-root.ts'
import { freePort } from './free-port.ts'
import { rootBlocks } from './guide-sections.ts'
import type { ReleaseKey } from './release-key.ts'

interface Release {
  debs: readonly string[]
  sourceDate: number
  signer: { key: string; passphraseFile: string }
}

const vendor = new URL('../../vendor/release/', import.meta.url).pathname
const list = 'etc/apt/sources.list.d/pipectl.list'
const onlyPipectl = 'etc/apt/only-pipectl'
const keyring = 'etc/apt/keyrings/pipectl.asc'

/** On a free loopback port. Only names below its folder are served. */
export async function serveRepository(t: Test, root: DebianRoot) {
  const { makeAptRepository }: { makeAptRepository(folder: string, release: Release): void } = await import(
    path.join(vendor, 'apt-repository.mjs')
  )
  const { commitTime }: { commitTime(root: string): number } = await import(path.join(vendor, 'checks.mjs'))
  const folder = path.join(root.directory, '../repository')
  const server = createServer((request, response) => {
    const file = path.join(folder, path.normalize(decodeURIComponent(request.url ?? '/')))
    if (statSync(file, { throwIfNoEntry: false })?.isFile()) createReadStream(file).pipe(response)
    else response.writeHead(404).end()
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const [guide = ''] = rootBlocks('releases', 'A repository for apt')
  const commands = guide
    .replace('https://packages.example.com/apt', `http://127.0.0.1:${port}`)
    .replace('| sudo tee', '| tee')
    .replace('get install', 'get -y -q install')
  // The source of Debian is not read: a test contacts no other host, and no package of Debian is needed.
  const lines = [
    `Dir::Etc::sourcelist "/${list}";`,
    'Dir::Etc::sourceparts "-";',
    'APT::Get::List-Cleanup "0";',
  ]
  const env = { APT_CONFIG: `/${onlyPipectl}` }
  return {
    /** The files that the server serves. */
    folder,
    /** For the commands of the guide. */
    env,
    /** The block of the guide, and its last two lines. They run in the folder with the key. */
    useAndInstall: `cd /tmp\n${commands}`,
    install: commands.trimEnd().split('\n').slice(-2).join('\n'),
    /** Replaces what is published. */
    publish: (debs: readonly string[], { id, passphraseFile, env: { GNUPGHOME } }: ReleaseKey) => {
      rmSync(folder, { recursive: true, force: true })
      // gpg finds its keyring by this variable.
      process.env.GNUPGHOME = GNUPGHOME
      const sourceDate = commitTime(path.join(vendor, '../..'))
      makeAptRepository(folder, { debs, sourceDate, signer: { key: id, passphraseFile } })
    },
    /** The public key as the user has it, next to the settings of apt. */
    giveKey: ({ id, env: { GNUPGHOME } }: ReleaseKey) => {
      const key = execFileSync('gpg', ['--armor', '--export', id], { env: { ...process.env, GNUPGHOME } })
      writeFileSync(path.join(root.directory, 'tmp/pipectl-release-key.asc'), key)
      writeFileSync(path.join(root.directory, onlyPipectl), lines.join('\n'))
    },
    /** Without what apt has verified before. */
    update: async () => {
      const lists = namesIn(root, 'var/lib/apt/lists').filter((name) => name.startsWith('127.0.0.1'))
      for (const name of lists) rmSync(path.join(root.directory, 'var/lib/apt/lists', name))
      return await root.run(['apt-get', '-q', 'update', '--error-on=any'], { env })
    },
    /** Removes what the guide and `giveKey` have put into /etc/apt. */
    forget: () => {
      for (const name of [list, onlyPipectl, keyring]) rmSync(path.join(root.directory, name))
    },
  }
}
