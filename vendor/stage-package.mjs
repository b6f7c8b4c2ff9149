/**
 * Fills a folder with the program as it is installed: what `npm run package` packs, and what other packages take.
 *
 *   bin, dist           the program, bundled (bundle-program.mjs), the dashboard and the scanner
 *   node_modules        packages with a native part: better-sqlite3, and the loader of uWebSockets with one binding, if any
 *   config, systemd, monitoring, examples, docs, openapi, dist/man (the man page)
 *
 * npm would rebuild native packages while it installs: they are without their sources and install steps, so that it works
 * offline. What is here is for one platform and one version of Node.js: those it is made on, or another target's.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { bundleProgram } from './bundle-program.mjs'
import { thirdPartyLicenses } from './third-party-licenses.mjs'

const root = path.resolve(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const items = [
  ...['bin', 'config', 'systemd', 'monitoring', 'examples', 'docs', 'openapi', 'dist/man'],
  ...['LICENSE', 'README.md', 'CHANGELOG.md'],
]
/** In the order in which the loader tries them. */
const bindings = (platform) => [
  { name: '@btc-vision/uwebsockets.js', file: `uws_${platform}.node` },
  { name: '@trufflesuite/uws-js-unofficial', file: `binaries/uws_${platform}.node` },
]
const sqliteAddon = 'build/Release/better_sqlite3.node'
const sqlite = [
  { name: 'better-sqlite3', files: ['lib'], needs: ['bindings'] },
  { name: 'bindings', files: ['bindings.js'], needs: ['file-uri-to-path'] },
  { name: 'file-uri-to-path', files: ['index.js'], needs: [] },
]

/** Its binding of uWebSockets is the first that loads. */
const here = {
  platform: process.platform,
  arch: process.arch,
  abi: process.versions.modules,
  addon: path.join(root, 'node_modules/better-sqlite3', sqliteAddon),
  fits: loads,
}

/** Linux with another Node.js: whether its C library is new enough for the binding is seen where it runs. */
export function otherTarget({ arch, abi, addon }) {
  return { platform: 'linux', arch, abi, addon, fits: isThere }
}

/** `stage` is an empty folder; `npm run build` has run. */
export async function stagePackage(stage, target = here) {
  for (const item of items) copy(item, stage)
  const { assets, modules } = await bundleProgram(stage)
  for (const asset of assets) copy(asset, stage)

  copy('vendor/uwebsockets.js', stage, 'node_modules/uWebSockets.js')
  const platform = `${target.platform}_${target.arch}_${target.abi}`
  const binding = bindings(platform).find(target.fits)
  if (binding === undefined)
    process.stderr.write(
      `no uWebSockets binding loads on ${platform}: the package will serve over node:http\n`,
    )
  const native = [...sqlite, ...(binding ? [{ name: binding.name, files: [binding.file], needs: [] }] : [])]
  const dependencies = native.map((one) => copyPackage(one, stage))
  dependencies.push(['uWebSockets.js', manifestOf('vendor/uwebsockets.js').version])
  cpSync(target.addon, path.join(stage, 'node_modules/better-sqlite3', sqliteAddon))
  writeManifest(stage, target, Object.fromEntries(dependencies))

  // The scanner contains a few functions of AssemblyScript.
  const packaged = [...native.map(({ name }) => name), 'assemblyscript'].map((name) => `node_modules/${name}`)
  const licenses = thirdPartyLicenses([...modules, ...packaged, ...dashboardPackages()])
  writeFileSync(path.join(stage, 'THIRD-PARTY-LICENSES'), licenses)
}

function copy(from, stage, to = from) {
  cpSync(path.join(root, from), path.join(stage, to), { recursive: true, dereference: true })
}

function isThere({ name, file }) {
  return existsSync(path.join(root, 'node_modules', name, file))
}

function loads({ name, file }) {
  try {
    createRequire(import.meta.url)(path.join(root, 'node_modules', name, file))
    return true
  } catch {
    return false
  }
}

/**
 * npm runs an install script, or node-gyp where it sees binding.gyp, and asks a registry for what is missing: nothing of
 * this is left. Returns the entry of the package's own manifest.
 */
function copyPackage({ name, files, needs }, stage) {
  const folder = path.join('node_modules', name)
  const { version, license, main } = manifestOf(folder)
  for (const file of [...files, ...licenseFiles(folder)]) copy(path.join(folder, file), stage)
  const dependencies = Object.fromEntries(
    needs.map((one) => [one, manifestOf(`node_modules/${one}`).version]),
  )
  writeJson(path.join(stage, folder, 'package.json'), { name, version, license, main, dependencies })
  return [name, version]
}

function licenseFiles(folder) {
  return readdirSync(path.join(root, folder)).filter((file) => /^(licen[cs]e|notice)/i.test(file))
}

/** As its build noted them. */
function dashboardPackages() {
  return JSON.parse(readFileSync(path.join(root, 'dist', 'dashboard-modules.json'), 'utf8'))
}

function writeManifest(stage, { platform, arch }, dependencies) {
  const { name, version, description, license, type, engines, bin } = manifest
  writeJson(path.join(stage, 'package.json'), {
    ...{ name, version, description, license, type, engines, bin },
    os: [platform],
    cpu: [arch],
    dependencies,
    bundleDependencies: Object.keys(dependencies),
  })
}

function manifestOf(folder) {
  return JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8'))
}

function writeJson(file, value) {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)
}
