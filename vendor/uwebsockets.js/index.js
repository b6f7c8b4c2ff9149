/*
 * uWebSockets.js is not published on the npm registry under its own name, so this package stands in
 * its place (package.json "overrides") and loads the first native binding that works here:
 *
 *   1. @btc-vision/uwebsockets.js   Node 20/22/24, glibc 2.38 or newer, macOS
 *   2. @trufflesuite/uws-js-unofficial   Node 20, glibc 2.27 or newer: the .node file directly,
 *      because its entry point falls back in silence to a pure JavaScript server.
 *
 * uWS refuses header blocks over 4 KB with a 431 of its own; the limit is read from the environment
 * once, when the binding loads.
 */
process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'

const platform = `${process.platform}_${process.arch}_${process.versions.modules}`
const bindings = [
  () => require('@btc-vision/uwebsockets.js'),
  () => require(`@trufflesuite/uws-js-unofficial/binaries/uws_${platform}.node`),
]

function load() {
  const failures = []
  for (const open of bindings) {
    try {
      return open()
    } catch (error) {
      failures.push(String(error.message).split('\n').filter(Boolean).pop())
    }
  }
  const glibc = process.report?.getReport().header.glibcVersionRuntime ?? 'none'
  const error = new Error(
    `no uWebSockets binding loads on Node.js ${process.version} (ABI ${process.versions.modules}, ` +
      `${process.platform} ${process.arch}, glibc ${glibc}); use Node.js 20, or 22/24 with glibc 2.38 or newer. ` +
      `Tried: ${failures.join('; ')}`,
  )
  error.code = 'UWS_BINDING_UNAVAILABLE'
  throw error
}

module.exports = load()
