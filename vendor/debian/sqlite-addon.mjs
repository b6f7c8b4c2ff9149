/**
 * The native part of better-sqlite3 for the Node.js of a package: the one in node_modules is for the Node.js that builds. Compiled
 * by the node-gyp of npm, as npm would, once for each checkout, without the symbols that only debuggers read.
 *
 * For another processor Debian's cross compiler does it. SQLite itself takes ten times as long as the rest and knows nothing of
 * Node.js: it is compiled once for each processor, and not at all for this one after `npm run compile:sqlite`, because its
 * object is the same byte for byte.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { callsFdatasync, sqliteFlags } from '../compile-sqlite.mjs'
import { keep, nodeHeaders, runtime } from './node-runtime.mjs'
import { compilers, tool } from './toolchain.mjs'

const from = path.resolve(import.meta.dirname, '../../node_modules/better-sqlite3')
const compiledSqlite = path.join(from, 'build/Release/sqlite3.a')
/** Linked to the SQLite that is there. */
const binding = {
  targets: [
    {
      target_name: 'better_sqlite3',
      sources: ['src/better_sqlite3.cpp'],
      include_dirs: ['deps/sqlite3'],
      libraries: ['<(module_root_dir)/sqlite3.a'],
      defines: ['NDEBUG'],
      cflags: ['-O3'],
      cflags_cc: ['-std=c++20'],
      ldflags: ['-Wl,-Bsymbolic', '-Wl,--exclude-libs,ALL'],
    },
  ],
}

/** The path of `better_sqlite3.node`. `arch` as in process.arch, `abi` as in process.versions.modules. */
export function sqliteAddon(arch, abi = runtime.abi) {
  const { version } = JSON.parse(readFileSync(path.join(from, 'package.json'), 'utf8'))
  const place = `better-sqlite3@${version}`
  const headers = nodeHeaders(abi)
  const sqlite = sqliteFor(arch, `${place}-sqlite-${arch}-fdatasync`)
  const folder = keep(`${place}-${abi}-${arch}-fdatasync-stripped`, (making) => {
    compile(making, arch, headers, sqlite)
    const addon = path.join(making, 'better_sqlite3.node')
    execFileSync(tool('strip', arch), ['--strip-unneeded', '--remove-section=.comment', addon])
  })
  return path.join(folder, 'better_sqlite3.node')
}

/** The path of `sqlite3.a`: SQLite for the processor. */
function sqliteFor(arch, name) {
  if (arch === process.arch && callsFdatasync(compiledSqlite)) return compiledSqlite
  const headers = nodeHeaders()
  return path.join(
    keep(name, (making) => compile(making, arch, headers, null)),
    'sqlite3.a',
  )
}

/** Without `sqlite` leaves `sqlite3.a`, otherwise the addon that is linked to it. */
function compile(folder, arch, headers, sqlite) {
  const sources = ['src', 'deps', 'binding.gyp', 'package.json']
  for (const name of sources) cpSync(path.join(from, name), path.join(folder, name), { recursive: true })
  if (sqlite !== null) {
    copyFileSync(sqlite, path.join(folder, 'sqlite3.a'))
    writeFileSync(path.join(folder, 'binding.gyp'), JSON.stringify(binding))
  }
  // The names of the folders must not be in the file.
  const flags = `-ffile-prefix-map=${folder}=. -ffile-prefix-map=${headers}=node`
  const env = {
    ...process.env,
    npm_config_nodedir: headers,
    npm_config_arch: arch,
    CFLAGS: `${flags} ${sqliteFlags}`,
    CXXFLAGS: flags,
    ...compilers(arch),
  }
  try {
    execFileSync('npm', ['run', 'build-release'], { cwd: folder, env, stdio: 'pipe', encoding: 'utf8' })
  } catch (error) {
    throw new Error(`better-sqlite3 does not compile for ${arch}: ${String(error.stderr).slice(-2000)}`)
  }
  const result = sqlite === null ? 'sqlite3.a' : 'better_sqlite3.node'
  copyFileSync(path.join(folder, 'build/Release', result), path.join(folder, `made-${result}`))
  for (const name of [...sources, 'build', 'sqlite3.a'])
    rmSync(path.join(folder, name), { recursive: true, force: true })
  renameSync(path.join(folder, `made-${result}`), path.join(folder, result))
}
