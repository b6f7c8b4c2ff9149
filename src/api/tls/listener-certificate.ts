/**
 * The certificate of a listener, reloaded when its files change. Certbot and others swap symbolic links, some tools
 * write the files themselves, and a key may arrive a moment after its certificate.
 *
 *   served ──files have changed──▶ read ──usable──▶ served (the new one, to connections from now on)
 *                                   └──not usable, at two checks in a row──▶ rejected: the old one is served
 *
 * The files are checked every few seconds. File notifications of the system miss links that are swapped further up
 * their path, and network file systems.
 */
import { statSync } from 'node:fs'
import { ConfigError } from '../../platform/config-error.ts'
import type { Logger } from '../../platform/log.ts'
import { type CertificateFiles, readCertificate, type ServedCertificate } from './certificate-files.ts'

export interface ListenerCertificateOptions {
  /** The setting of the listener: `listen`, `data_listen`. */
  listener: string
  files: CertificateFiles
  log: Logger
  /** The wall clock in ms. */
  now?: () => number
}

const checkEveryMs = 5_000
/** Automatic clients renew when a third of the lifetime is left: 30 days of 90, or two days of six. */
const soonMs = 2 * 24 * 3_600_000

export class ListenerCertificate {
  readonly listener: string
  readonly #log: Logger
  readonly #now: () => number
  readonly #timer: NodeJS.Timeout
  #files: CertificateFiles
  #current: ServedCertificate
  #seen: string
  /** The signature of the files when they could first not be used. */
  #suspect: string | null = null
  #rejection: string | null = null
  #onChange: (certificate: ServedCertificate) => void = () => {}

  /** Throws ConfigError. */
  constructor({ listener, files, log, now = Date.now }: ListenerCertificateOptions) {
    this.listener = listener
    this.#files = files
    this.#log = log
    this.#now = now
    this.#seen = signatureOf(files)
    this.#current = readCertificate(files)
    this.#warnOfExpiry()
    this.#timer = setInterval(() => this.#check(), checkEveryMs)
    this.#timer.unref()
  }

  get current(): ServedCertificate {
    return this.#current
  }

  /** Why the current files cannot be used; null: they are served. */
  get rejection(): string | null {
    return this.#rejection
  }

  /** The certificate should have been renewed by now. */
  get expiresSoon(): boolean {
    return this.#current.expiresMs <= this.#now() + soonMs
  }

  get isExpired(): boolean {
    return this.#current.expiresMs <= this.#now()
  }

  /** Sets the only listener. */
  onChange(listener: (certificate: ServedCertificate) => void): void {
    this.#onChange = listener
  }

  /** Reloads at once on SIGHUP, even if the files look unchanged. False: they cannot be used, and the log says why. */
  reload(files: CertificateFiles = this.#files): boolean {
    this.#files = files
    this.#seen = signatureOf(files)
    this.#suspect = null
    return this.#take()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #check(): void {
    const signature = signatureOf(this.#files)
    if (signature === this.#seen) return
    if (!this.#isUsable() && this.#suspect !== signature) {
      // The other file of the pair may follow in a moment.
      this.#suspect = signature
      return
    }
    this.#suspect = null
    this.#seen = signature
    this.#take()
  }

  #isUsable(): boolean {
    try {
      readCertificate(this.#files)
      return true
    } catch {
      return false
    }
  }

  #take(): boolean {
    const { listener } = this
    try {
      const next = readCertificate(this.#files)
      if (next.expiresMs <= this.#now() && !this.isExpired)
        throw new ConfigError(
          `${this.#files.certSetting}: ${this.#files.certFile} expired on ${day(next.expiresMs)}`,
        )
      const isNew =
        this.#rejection !== null ||
        next.fingerprint !== this.#current.fingerprint ||
        !next.key.equals(this.#current.key)
      this.#rejection = null
      this.#current = next
      this.#onChange(next)
      if (isNew) this.#log.info({ listener, expires: day(next.expiresMs) }, 'tls.certificate_loaded')
      this.#warnOfExpiry()
      return true
    } catch (error) {
      this.#rejection = error instanceof ConfigError ? error.message : String(error)
      const serving_until = day(this.#current.expiresMs)
      this.#log.error({ listener, reason: this.#rejection, serving_until }, 'tls.certificate_rejected')
      return false
    }
  }

  /** Warns and continues: the operator may have no other certificate, and delivery does not depend on it. */
  #warnOfExpiry(): void {
    if (!this.isExpired) return
    const { certSetting, certFile } = this.#files
    const reason = `${certSetting}: ${certFile} expired on ${day(this.#current.expiresMs)}; clients will reject it: renew it`
    this.#log.error({ listener: this.listener, reason }, 'tls.certificate_expired')
  }
}

/** Returns the signature of the files that the names currently lead to. */
function signatureOf({ certFile, keyFile }: CertificateFiles): string {
  return [certFile, keyFile]
    .map((file) => {
      const stats = statSync(file, { throwIfNoEntry: false, bigint: true })
      return stats === undefined
        ? 'none'
        : [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ')
    })
    .join('\n')
}

function day(ms: number): string {
  return new Date(ms).toISOString()
}
