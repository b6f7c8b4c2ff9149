import t from 'tap'
import { SignInLimits } from '../../../src/api/management/sign-in-limits.ts'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { knownBrowser, mintBrowserToken } from '../../../src/metadata/session-tokens.ts'

const { signInsPerAccount, signInsPerAddress, signInsPerAccountAnywhere, signInWindowSeconds } =
  resourceLimits
const tooMany = { code: 'too_many_attempts' }
const from = (address: string) => ({ address })
const known = { browser: 'a browser' }

t.test('an account takes ten failures from an address, and others reach it from elsewhere', async (t) => {
  let now = 0
  const limits = new SignInLimits(() => now)
  for (let n = 0; n < signInsPerAccount; n += 1) limits.begin('ada', from('attacker'))
  now = 60_000
  t.throws(() => limits.begin('ada', from('attacker')), {
    ...tooMany,
    headers: { 'Retry-After': String(signInWindowSeconds - 60) },
  })
  limits.begin('bob', from('attacker'))
  limits.begin('ada', from('another'))
  now = signInWindowSeconds * 1_000
  limits.begin('ada', from('attacker'))
})

t.test('an account takes a hundred failures from everywhere; a browser that it knows gets in', async (t) => {
  let now = 0
  const limits = new SignInLimits(() => now)
  for (let n = 0; n < signInsPerAccountAnywhere; n += 1) limits.begin('ada', from(`address ${n}`))
  t.throws(() => limits.begin('ada', from('another')), tooMany)
  limits.begin('ada', known)()
  limits.begin('bob', from('another'))
  now = signInWindowSeconds * 1_000
  limits.begin('ada', from('another'))
})

t.test('a known browser takes ten failures, which count for no one else', async (t) => {
  const limits = new SignInLimits(() => 0)
  for (let n = 0; n < signInsPerAccount; n += 1) limits.begin('ada', known)
  t.throws(() => limits.begin('ada', known), tooMany)
  limits.begin('ada', { browser: 'another' })
  limits.begin('ada', from('a browser'))
  for (let n = 0; n < signInsPerAccountAnywhere - 1; n += 1) limits.begin('ada', from(`address ${n}`))
})

t.test('an address takes thirty, whatever the account', async (t) => {
  let now = 0
  const limits = new SignInLimits(() => now)
  for (let n = 0; n < signInsPerAddress; n += 1) limits.begin(`account ${n}`, from('address'))
  t.throws(() => limits.begin('new', from('address')), tooMany)
  limits.begin('new', from('another address'))
  limits.begin('new', known)
  now = signInWindowSeconds * 1_000
  limits.begin('new', from('address'))
})

t.test('an attempt that succeeds does not count', async (t) => {
  const limits = new SignInLimits(() => 0)
  for (let n = 0; n < 10 * signInsPerAddress; n += 1) limits.begin('ada', from('address'))()
  for (let n = 0; n < signInsPerAccount; n += 1) limits.begin('ada', from('address'))
  t.throws(() => limits.begin('ada', from('address')), tooMany)
})

t.test('an attempt that is rejected does not lengthen the wait', async (t) => {
  let now = 0
  const limits = new SignInLimits(() => now)
  for (let n = 0; n < signInsPerAccount; n += 1) limits.begin('ada', from('address'))
  for (; now < signInWindowSeconds * 1_000; now += 10_000)
    t.throws(() => limits.begin('ada', from('address')), tooMany)
  limits.begin('ada', from('address'))
})

t.test("a browser's token is of one account and one password, and cannot be made up", async (t) => {
  const token = mintBrowserToken('hash of ada')
  const [id = '', signature = ''] = token.split('.')
  t.equal(knownBrowser(token, 'hash of ada'), id)
  t.equal(knownBrowser(token, 'another hash'), null)
  const [otherId = ''] = mintBrowserToken('hash of ada').split('.')
  for (const forged of [
    '',
    id,
    `${otherId}.${signature}`,
    `${id}.${'A'.repeat(43)}`,
    `${token}x`,
    `x${token}`,
  ])
    t.equal(knownBrowser(forged, 'hash of ada'), null, forged)
})
