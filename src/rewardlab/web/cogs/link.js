// The program that serves this page: it hands out frames, and plays on when the page wants more.

const POLL_AGAIN = 1500;

export class Link {
  constructor(episode, { onFrames, onEnd, onLost }) {
    this.episode = episode;
    this.wanted = 0;
    this.closed = false;
    Object.assign(this, { onFrames, onEnd, onLost });
    this.#follow();
  }

  // Long polling: the answer comes when there is something new.
  async #follow() {
    let misses = 0;
    while (!this.closed) {
      try {
        const answer = await fetch(`frames?from=${this.episode.length}`, { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        const { frames, summary, total } = await answer.json();
        for (const frame of frames) this.episode.push(frame);
        misses = 0;
        if (frames.length) this.onFrames();
        if (summary && this.episode.length >= total) {
          this.episode.summary = summary;
          this.closed = true;
          this.onEnd();
        }
      } catch (error) {
        misses += 1;
        if (misses === 3) this.onLost();
        if (misses > 20) return;
        await new Promise((done) => setTimeout(done, POLL_AGAIN));
      }
    }
  }

  // Let the episode be played up to a step; in its next step some cogs may be told what to do.
  want(step, steer = null) {
    if (this.closed || (step <= this.wanted && !steer)) return;
    this.wanted = Math.max(step, this.wanted);
    this.#post({ want: step, steer: steer ?? {} });
  }

  quit() { this.#post({ quit: true }); }

  async #post(message) {
    try {
      await fetch("control", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(message), keepalive: true,
      });
    } catch { /* the polling notices that the program is gone */ }
  }
}
