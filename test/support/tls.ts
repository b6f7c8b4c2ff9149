/**
 * A self-signed certificate made on the spot, so that no private key lies in the repository and no openssl program
 * is needed. Node can sign but not build certificates, hence the few lines of DER.
 */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

export interface KeyAndCertificate {
  /** PEM, PKCS #8. */
  key: string
  /** PEM, X.509 v3, ECDSA P-256, valid from 2020 to 2049, for localhost, 127.0.0.1 and 127.0.0.2. */
  certificate: string
}

export function selfSignedCertificate(commonName = 'pipectl test'): KeyAndCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const ecdsaWithSha256 = sequence(objectId([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]))
  const name = sequence(set(sequence(objectId([0x55, 0x04, 0x03]), der(0x0c, Buffer.from(commonName)))))
  const validity = sequence(utcTime('200101000000Z'), utcTime('491231235959Z'))
  const alternativeNames = sequence(
    der(0x82, Buffer.from('localhost')),
    der(0x87, Buffer.from([127, 0, 0, 1])),
    der(0x87, Buffer.from([127, 0, 0, 2])),
  )
  const extensions = der(0xa3, sequence(sequence(objectId([0x55, 0x1d, 0x11]), der(0x04, alternativeNames))))
  const serial = Buffer.concat([Buffer.from([0x01]), randomBytes(8)])
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    ecdsaWithSha256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    extensions,
  )
  const signature = sign('sha256', body, privateKey)
  const certificate = sequence(body, ecdsaWithSha256, der(0x03, Buffer.concat([Buffer.from([0]), signature])))
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    certificate: pem('CERTIFICATE', certificate),
  }
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const header =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...header]), content])
}
function sequence(...items: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(items))
}
function set(...items: Buffer[]): Buffer {
  return der(0x31, Buffer.concat(items))
}
function objectId(bytes: number[]): Buffer {
  return der(0x06, Buffer.from(bytes))
}
function utcTime(text: string): Buffer {
  return der(0x17, Buffer.from(text))
}
function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}
