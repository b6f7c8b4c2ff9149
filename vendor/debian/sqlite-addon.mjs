/**
 * The native part of better-sqlite3 for the package's Node.js: the one in node_modules is for the Node.js that builds. Compiled
 * by the node-gyp of npm, as npm would, once for each checkout.
 *
 * For another processor Debian's cross compiler does it. For this one SQLite itself, which takes ten times as long as the rest
 * and knows nothing of Node.js, is not compiled a second time where `npm run compile:sqlite` has done it: its object is the same byte for byte.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { callsFdatasync, sqliteFlags } from '../compile-sqlite.mjs'
import { keep, nodeHeaders, runtime } from './node-runtime.mjs'
import { compilers } from './toolchain.mjs'

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

/** The path of `better_sqlite3.node`. `arch` as in process.arch. */
export function sqliteAddon(arch) {
  const { version } = JSON.parse(readFileSync(path.join(from, 'package.json'), 'utf8'))
  const headers = nodeHeaders()
  const folder = keep(`better-sqlite3@${version}-${runtime.abi}-${arch}-fdatasync`, (making) =>
    compile(making, arch, headers),
  )
  return path.join(folder, 'better_sqlite3.node')
}

function compile(folder, arch, headers) {
  const sources = ['src', 'deps', 'binding.gyp', 'package.json']
  for (const name of sources) cpSync(path.join(from, name), path.join(folder, name), { recursive: true })
  const isForHere = arch === process.arch
  if (isForHere && callsFdatasync(compiledSqlite)) {
    copyFileSync(compiledSqlite, path.join(folder, 'sqlite3.a'))
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
  copyFileSync(
    path.join(folder, 'build/Release/better_sqlite3.node'),
    path.join(folder, 'better_sqlite3.node'),
  )
  for (const name of [...sources, 'build', 'sqlite3.a'])
    rmSync(path.join(folder, name), { recursive: true, force: true })
}
