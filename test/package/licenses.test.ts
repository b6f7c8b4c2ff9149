/** The licenses of third-party code in a package: their texts are included, or no package is made. */
import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'

const mit = 'Permission is hereby granted, free of charge, to any person'
const script = new URL('../../vendor/third-party-licenses.mjs', import.meta.url).href

/** The text for packages with these files, or the error's message. */
async function licensesOf(
  t: Test,
  packages: Record<string, Record<string, string | object>>,
): Promise<string> {
  const folder = t.testdir()
  const modules = Object.entries(packages).map(([name, files]) => {
    const place = path.join(folder, 'node_modules', name)
    mkdirSync(place, { recursive: true })
    for (const [file, content] of Object.entries(files)) {
      const manifest = { name: path.basename(name), version: '1.2.3', ...Object(content) }
      writeFileSync(path.join(place, file), typeof content === 'string' ? content : JSON.stringify(manifest))
    }
    return `node_modules/${name}/lib/index.js`
  })
  const program = `import { thirdPartyLicenses } from ${JSON.stringify(script)}
try {
  console.log(thirdPartyLicenses(${JSON.stringify(modules)}, ${JSON.stringify(folder)}))
} catch (error) {
  console.log(error.message)
}`
  return (await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])).stdout
}

t.test('a text that several packages have stands there once, with notices', async (t) => {
  const text = await licensesOf(t, {
    one: { 'package.json': { license: 'MIT' }, LICENSE: mit },
    'two/node_modules/three': { 'package.json': { license: { type: 'MIT' } }, 'license.md': mit },
    four: {
      'package.json': { licenses: [{ type: 'BSD-3-Clause' }] },
      COPYING: 'Redistribution',
      NOTICE: 'Made by four',
    },
    five: { 'package.json': { license: '(GPL-2.0 OR ISC)' }, LICENCE: 'Permission to use' },
  })
  t.match(text, /one 1\.2\.3 \(MIT\)\nthree 1\.2\.3 \(MIT\)\n\nPermission/)
  t.equal(text.split(mit).length, 2)
  t.match(text, /four 1\.2\.3 \(BSD-3-Clause\)\n\nRedistribution\n\nMade by four/)
  t.match(text, /five 1\.2\.3 \(ISC\)\n\nPermission to use/)
})

t.test('the text may stand at the end of README.md; that of Apache-2.0 is known', async (t) => {
  const text = await licensesOf(t, {
    one: { 'package.json': { license: 'MIT' }, 'README.md': `# one\nUsage\n## License\n\n(c) one\n${mit}\n` },
    two: { 'package.json': { license: 'Apache-2.0' }, 'README.md': '# two' },
  })
  t.match(text, /one 1\.2\.3 \(MIT\)\n\n\(c\) one\nPermission/)
  t.match(text, /two 1\.2\.3 \(Apache-2\.0\)\n\n\s*Apache License/)
})

t.test('no package is made of what may not be passed on so, or without its text', async (t) => {
  for (const license of ['GPL-3.0', 'MIT AND GPL-2.0', 'UNLICENSED', 'SEE LICENSE IN LICENSE', undefined])
    t.match(
      await licensesOf(t, { gpl: { 'package.json': { license }, LICENSE: mit } }),
      `gpl has the license "${license ?? ''}", which is none of 0BSD, Apache-2.0`,
    )
  t.match(
    await licensesOf(t, { bare: { 'package.json': { license: 'MIT' }, 'README.md': '## License\n\nMIT' } }),
    'bare (MIT) comes without the text of its license: put it in vendor/licenses',
  )
})
