-- A log as a sorted set: a member for each unit, its time in milliseconds as the score.
local plain_log = {}

-- Units that this call has added, so that each gets a member of its own.
local added = 0
-- How many arguments one command takes.
local MOST_MEMBERS = 1000

function plain_log.open(it)
  local at, window = floor(now / 1000), it.window / 1000
  local log = { key = it.head, at = at, window = it.window, cutoff = decimal(at - window) }
  log.count = call('ZCOUNT', log.key, '(' .. log.cutoff, '+inf')
  return log
end

-- The instant of the first entry of a reply. Another limiter's clock may run ahead of ours.
local function instant(entries)
  return entries[2] and min(now, floor(tonumber(entries[2]) * 1000)) or now
end

local function newest(log)
  return instant(call('ZREVRANGE', log.key, 0, 0, 'WITHSCORES'))
end

function plain_log.tell(log, it, cost)
  if log.count == 0 then return 0, now, now end
  local excess, makes_room = log.count + cost - it.limit, now
  if excess > 0 and excess <= log.count then
    makes_room = instant(call('ZRANGEBYSCORE', log.key, '(' .. log.cutoff, '+inf', 'WITHSCORES',
      'LIMIT', excess - 1, 1))
  end
  return log.count, newest(log), makes_room
end

function plain_log.fits(it, log, cost)
  return log.count + cost <= it.limit
end

local function add(log, members)
  local words = {}
  for i = 1, #members do
    words[#words + 1], words[#words + 2] = decimal(log.at), members[i]
    if i % MOST_MEMBERS == 0 or i == #members then
      call('ZADD', log.key, unpack(words))
      words = {}
    end
  end
end

-- Drops what has left the window. What lies in the future is moved to now: otherwise a clock that
-- runs ahead would deny for longer than one window.
local function tidy(log)
  call('ZREMRANGEBYSCORE', log.key, '-inf', log.cutoff)
  add(log, call('ZRANGEBYSCORE', log.key, '(' .. decimal(log.at), '+inf'))
end

-- A log expires two windows after its last entry, as with RLaaS, or later if the buffer is longer
-- than a window.
local function mend_log(log)
  if log.count == 0 then return end
  local matters = newest(log) + log.window - now
  outlive(log.key, matters + max(0, log.window - buffer))
end

function plain_log.take(_, log, cost)
  tidy(log)
  local members = {}
  for i = 1, cost do members[i] = decimal(log.at) .. '-' .. nonce .. '-' .. (added + i) end
  added = added + cost
  add(log, members)
  log.count = log.count + cost
  mend_log(log)
end

function plain_log.deny(_, log)
  tidy(log)
  mend_log(log)
end

function plain_log.give(_, log, amount)
  tidy(log)
  local given = min(amount, log.count)
  if given > 0 then call('ZREMRANGEBYRANK', log.key, -given, -1) end
  log.count = log.count - given
  mend_log(log)
end

function plain_log.forget(log)
  call('DEL', log.key)
end
