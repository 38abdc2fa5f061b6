-- The stored form of a bucket: when it is full, the remainder and the pace, see `token_bucket.lua`; and
-- the multiple to which its time to live was rounded up: 256 microseconds, times 16 for each step; 0 if
-- it was not. As long as the bucket is full before the key expires, the time to live need not be
-- renewed, which makes writes cheap.
--
-- A bucket with a small pace, which never has a remainder, is stored as one integer, which takes Redis
-- the least memory and which INCRBY changes in place: the microseconds since 2025, followed by four
-- digits for the rounding and the pace. Other buckets are stored as three numbers, an instant first; if
-- they are short enough, the rounding is in the four bits before the instant.
local BEFORE, HIGH = 16, 281474976710656
local SINCE, DIGITS = 1735689600000000, 10000
-- The integers have more digits than the strings have bytes, except for the longest string.
local FEWEST, MOST = 1e12, 9e14
-- A pace: the rate is below this, and above it is a class. The slowest has no bound but 800 days.
local RATE_LIMIT, SLOWEST, LONGEST_REFILL = 1125899906842624, 7, 69120000000000
-- The paces that four digits can hold: in the first class, rates below the first number; in the others,
-- rates below the second. All of them are below the third number, which leaves room for eight
-- roundings.
local RATES, FEW_RATES, PACES = 625, 89, 1250
-- Rates below these fit into short states, in two and in four bytes.
local SHORT_RATE, LONG_RATE = 8192, 536870912

local function bucket()
  local it = { SHORT = { [11] = '>BI6I2I2', [15] = '>BI6I4I4' } }

  -- A pace as a number below `PACES`; nil if it is not one of those.
  function it.digits(pace)
    local rate = pace % RATE_LIMIT
    local class = (pace - rate) / RATE_LIMIT
    if class == 0 then return rate < RATES and rate or nil end
    return rate < FEW_RATES and RATES + (class - 1) * FEW_RATES + rate or nil
  end

  -- A pace in a short state: the class above the bits that a short rate needs.
  function it.short(pace)
    local rate = pace % RATE_LIMIT
    local class = (pace - rate) / RATE_LIMIT
    if rate < SHORT_RATE then return 11, class * SHORT_RATE + rate end
    if rate < LONG_RATE then return 15, class * LONG_RATE + rate end
    return 21, pace
  end

  function it.step(round)
    return 256 * 16 ^ round
  end

  -- Rounds by an amount that stays within the period and in proportion to the debt: most keys are used
  -- once, and should not linger. Another limit may have made more debt than this one can.
  local function rounding(rule, debt)
    local _, bits = math.frexp(max(0, min(rule[3] - debt, 64 * debt)))
    return max(0, min(7, floor((bits - 9) / 4)))
  end

  -- Reads an integer: when the bucket is full, the pace, and the rounding. Nil if it is not a bucket.
  function it.whole(raw)
    if #raw < 16 or #raw > 19 or not raw:find('^[1-9]%d+$') then return nil end
    local code = tonumber(raw:sub(-4))
    local pace = code % PACES
    local round = (code - pace) / PACES
    if pace >= RATES then
      local rate = (pace - RATES) % FEW_RATES
      pace = ((pace - RATES - rate) / FEW_RATES + 1) * RATE_LIMIT + rate
    end
    return SINCE + tonumber(raw:sub(1, -5)), pace, round
  end

  function it.packed(rule, round, full_at, rest, pace)
    local since, digits = full_at - SINCE, it.digits(pace)
    if rest + rule[7] == 0 and digits and since >= FEWEST and since < MOST then
      return format('%.0f%04.0f', since, round * PACES + digits)
    end
    local length, code = it.short(pace)
    if length == 21 or rest >= 4294967296 or full_at >= BEFORE * HIGH then
      return pack('>I7I7I7', full_at, rest, pace)
    end
    -- A remainder is smaller than the rate.
    local head = floor(full_at / HIGH)
    return pack(it.SHORT[length], round * BEFORE + head, full_at - head * HIGH, rest, code)
  end

  -- Writes the bucket with a new time to live.
  function it.keep(key, rule, at, was, full_at, rest, pace)
    local round = rounding(rule, full_at - at)
    local final = full_at + min(rest, 1)
    local cell = it.step(round)
    if round > 0 then final = floor(full_at / cell) * cell + cell end
    return keep(key, was, it.packed(rule, round, full_at, rest, pace), final - at)
  end

  return it
end
