/**
 * Node.js 24, which the Debian package and the image ship, for tests on a machine that has another Node.js.
 *
 * Nothing of the checkout or the machine is changed, and root is not needed. `node_modules/.cache/pipectl-node` gets:
 *
 *   node-linux-ARCH@VERSION      the binary that the Debian package ships (vendor/debian/node-runtime.mjs)
 *   better-sqlite3@VERSION-137…  the addon that the Debian package ships (vendor/debian/sqlite-addon.mjs)
 *   debian13-packages-ARCH       on a machine whose C library is older than glibc 2.38, which the binding of uWebSockets
 *                                needs: that of Debian 13, by unpack-packages.sh
 *   node-linux-ARCH…-patched     there, a copy of the binary that is linked to the C library of Debian 13
 *   project                      this checkout with that addon: links, and copies of src/ and what was built of it, made in each run
 *
 * A copy of the binary is used, and not `ld.so node`, because tests and the product start `process.execPath` again. For
 * the same reason it has no LD_LIBRARY_PATH: the machine's own programs would inherit it.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'

export interface NodeRuntime {
  /** The binary. */
  execPath: string
  /** The project as this Node.js loads it: run its dist-test/, with it as the working directory. */
  root: string
  /** To be added to the environment: scripts find the same `node` on the PATH. */
  env: Record<string, string>
}

interface Release {
  runtime: { version: string; abi: string }
  nodeRelease(arch: string): string
  /** Returns the folder in the cache, after making it if it is missing. */
  keep(name: string, make: (folder: string) => void): string
}

const checkout = path.resolve(import.meta.dirname, '../..')
/** Folders with modules that import better-sqlite3, and with the sources that tests compare with their build. */
const copied = ['bin', 'dist', 'dist-test', 'src']

/**
 * Prepares the runtime: about a minute and 30 MB of downloads the first time, a fraction of a second afterwards. Requires
 * `npm run build:tests`. Throws outside Linux on x64 and arm64, and on an older C library without apt and Debian's keys.
 */
export async function prepareNode24(): Promise<NodeRuntime> {
  const release: Release = await import(path.join(checkout, 'vendor/debian/node-runtime.mjs'))
  const { sqliteAddon }: { sqliteAddon(arch: string): string } = await import(
    path.join(checkout, 'vendor/debian/sqlite-addon.mjs')
  )
  if (process.platform !== 'linux' || !(process.arch in loaders))
    throw new Error(`there is no Node.js 24 for tests on ${process.platform} ${process.arch}`)
  const bin = path.join(runnableRelease(release), 'bin')
  const root = projectWith(sqliteAddon(process.arch))
  return { execPath: path.join(bin, 'node'), root, env: { PATH: `${bin}:${process.env.PATH}` } }
}

/** The libraries' folder and the dynamic loader, by process.arch. */
const loaders: Readonly<Record<string, readonly [string, string]>> = {
  x64: ['x86_64-linux-gnu', 'ld-linux-x86-64.so.2'],
  arm64: ['aarch64-linux-gnu', 'ld-linux-aarch64.so.1'],
}

/** Returns the folder with a `bin/node` that the binding of uWebSockets loads on. */
function runnableRelease({ runtime, nodeRelease, keep }: Release): string {
  const shipped = nodeRelease(process.arch)
  if (hasNewGlibc()) return shipped
  const [libraries = '', loader = ''] = loaders[process.arch] ?? []
  const debian = path.join(keep(`debian13-packages-${process.arch}`, unpackDebian13), 'root')
  const libraryFolder = path.join(debian, 'usr/lib', libraries)
  const interpreter = path.join(libraryFolder, loader)
  return keep(`node-linux-${process.arch}@${runtime.version}-patched`, (folder) => {
    mkdirSync(path.join(folder, 'bin'))
    const node = path.join(folder, 'bin/node')
    cpSync(path.join(shipped, 'bin/node'), node)
    const patchelf = [interpreter, '--library-path', libraryFolder, path.join(debian, 'usr/bin/patchelf')]
    const patch = (...args: string[]) => execFileSync('env', [...patchelf, ...args, node], { stdio: 'pipe' })
    // In this order: a binary that gets them in the other one, or both at once, crashes at its start.
    patch('--force-rpath', '--set-rpath', libraryFolder)
    patch('--set-interpreter', interpreter)
    execFileSync(node, ['--eval', '0'], { stdio: 'pipe' })
  })
}

function hasNewGlibc(): boolean {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  const [major = 0, minor = 0] = (report.header?.glibcVersionRuntime ?? '').split('.').map(Number)
  return major > 2 || (major === 2 && minor >= 38)
}

/** The machine's own sources have older versions where its C library is older: these come from Debian 13. */
const debian13Packages = { libc6: '2.38', 'libgcc-s1': '14', 'libstdc++6': '14', patchelf: '0.18' }

function unpackDebian13(folder: string): void {
  const script = path.join(checkout, 'test/support/unpack-packages.sh')
  for (const [name, minimum] of Object.entries(debian13Packages))
    execFileSync('sh', [script, folder, name, minimum], { stdio: ['ignore', 'pipe', 'inherit'] })
  for (const lists of ['apt', 'apt-trixie'])
    rmSync(path.join(folder, lists), { recursive: true, force: true })
}

/** Returns the folder of this checkout with another addon of better-sqlite3. It is made again each time. */
function projectWith(addon: string): string {
  const root = path.join(checkout, 'node_modules/.cache/pipectl-node/project')
  rmSync(root, { recursive: true, force: true })
  const own = path.join(root, 'node_modules')
  mkdirSync(own, { recursive: true })
  linkAll(checkout, root, [...copied, 'node_modules', '.git', '.tap'])
  linkAll(path.join(checkout, 'node_modules'), own, ['better-sqlite3'])
  // Node.js resolves packages from the real path of a file. The times stay: the cache of data directories depends on them.
  for (const name of copied) execFileSync('cp', ['-a', path.join(checkout, name), root])
  const sqlite = path.join(own, 'better-sqlite3')
  mkdirSync(path.join(sqlite, 'build/Release'), { recursive: true })
  for (const name of ['package.json', 'lib'])
    cpSync(path.join(checkout, 'node_modules/better-sqlite3', name), path.join(sqlite, name), {
      recursive: true,
    })
  cpSync(addon, path.join(sqlite, 'build/Release/better_sqlite3.node'))
  return root
}

function linkAll(from: string, to: string, except: readonly string[]): void {
  for (const name of readdirSync(from))
    if (!except.includes(name)) symlinkSync(path.join(from, name), path.join(to, name))
}
