/**
 * The package as users get it: made by `npm run package`, for this processor alone, and installed by npm without a network and
 * without install scripts. Nothing of ours is imported here: which program is under test is decided when `daemon.ts` is loaded.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

export interface InstalledPackage {
  /** `bin/pipectl`, as npm puts it on the PATH. */
  command: string
  /** `lib/node_modules/pipectl`. */
  folder: string
  /** Its path. */
  tarball: string
  /** Of npm without a network. */
  env: NodeJS.ProcessEnv
  remove(): void
}

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname

export async function installPackage(): Promise<InstalledPackage> {
  const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-installed-'))
  const env = {
    ...process.env,
    npm_config_cache: path.join(home, 'cache'),
    npm_config_offline: 'true',
    npm_config_ignore_scripts: 'true',
  }
  const [prefix, packed] = [path.join(home, 'prefix'), path.join(home, 'packed')]
  mkdirSync(packed)
  const script = path.join(root, 'vendor', 'make-package.mjs')
  await run(process.execPath, [script, packed, '--arch', process.arch])
  const tarball = path.join(packed, readdirSync(packed)[0] ?? '')
  await run('npm', ['install', '--global', '--prefix', prefix, tarball], { env, cwd: home })
  const command = path.join(prefix, 'bin', 'pipectl')
  return {
    command,
    folder: path.dirname(path.dirname(realpathSync(command))),
    tarball,
    env,
    remove: () => rmSync(home, { recursive: true, force: true }),
  }
}
