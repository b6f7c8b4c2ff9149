/*
 * uWebSockets.js is not published on the npm registry under its own name, so this package stands in
 * its place (package.json "overrides") and loads the first native binding that works here:
 *
 *   1. @btc-vision/uwebsockets.js   Node 20/22/24, glibc 2.38 or newer, macOS
 *   2. @trufflesuite/uws-js-unofficial   Node 20, glibc 2.27 or newer: the .node file directly,
 *      because its entry point falls back in silence to a pure JavaScript server.
 *
 * Both are other people's builds. Only files whose SHA-256 stands in SHA256SUMS, taken from the
 * versions that package-lock.json pins, are loaded: one that was exchanged or damaged runs nothing.
 *
 * uWS refuses header blocks over 4 KB with a 431 of its own; the limit is read from the environment
 * once, when the binding loads.
 */
const { createHash } = require('node:crypto')
const { existsSync, readFileSync } = require('node:fs')
const path = require('node:path')

process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'

const platform = `${process.platform}_${process.arch}_${process.versions.modules}`
const bindings = [
  `@btc-vision/uwebsockets.js/uws_${platform}.node`,
  `@trufflesuite/uws-js-unofficial/binaries/uws_${platform}.node`,
]

/** `sha256sum` format: the hash, two spaces, the file's name below node_modules. */
const pinned = new Map(
  readFileSync(path.join(__dirname, 'SHA256SUMS'), 'utf8')
    .split('\n')
    .map((line) => [line.slice(66), line.slice(0, 64)]),
)

function load() {
  const failures = []
  for (const name of bindings) {
    try {
      return loadPinned(name)
    } catch (error) {
      failures.push(`${name}: ${String(error.message).split('\n').filter(Boolean).pop()}`)
    }
  }
  const glibc = process.report?.getReport().header.glibcVersionRuntime ?? 'none'
  const error = new Error(
    `no uWebSockets binding loads on Node.js ${process.version} (ABI ${process.versions.modules}, ` +
      `${process.platform} ${process.arch}, glibc ${glibc}); use Node.js 24 with glibc 2.38 or newer, ` +
      `or http.engine = "node". Tried: ${failures.join('; ')}`,
  )
  error.code = 'UWS_BINDING_UNAVAILABLE'
  throw error
}

function loadPinned(name) {
  const wanted = pinned.get(name)
  if (wanted === undefined) throw new Error('there is none for this platform')
  const file = find(name)
  const found = createHash('sha256').update(readFileSync(file)).digest('hex')
  if (found !== wanted) {
    throw new Error(`the file is not the one that was pinned: SHA-256 ${found}, not ${wanted} (${file})`)
  }
  return require(file)
}

/** By walking up, as Node does: what a package "exports" does not name cannot be resolved. */
function find(name) {
  for (const folder of module.paths) {
    const file = path.join(folder, name)
    if (existsSync(file)) return file
  }
  throw new Error('the file is not installed')
}

module.exports = load()
